"""State that outlives a gate: attachments, existing subscriptions, limiters."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Protocol

from sluicegate.engine.attachments import Attachments
from sluicegate.engine.buckets import LOCAL, Buckets
from sluicegate.engine.client_totals import Clients
from sluicegate.engine.held import HeldOperations, HoldTimes, TimesByKind
from sluicegate.engine.shared_limits import SharedPlaces
from sluicegate.engine.topic_context import TopicContext
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.model import Operation, OperationKind, TopicName

SUBSCRIPTIONS_BEFORE_PRUNING = 256
COUNTERS = (
    "allowed_ops",
    "allowed_messages",
    "allowed_bytes",
    "dispatched_messages",
    "dispatched_bytes",
    "rejected",
    "delayed",
    "dropped",
    "observed",
    "alone_bytes",
    "batched_messages",
    "batched_bytes",
)
"""Attributes of a topic's state that are counters; their sums never fall."""
SIZE_SLOTS = 34
"""One for each bit length of a message's or batch's size; no protocol here carries 8 GiB in one frame."""


class Scoping(Protocol):
    """Tells whose limits the producers and consumers of a topic with scopes use."""

    def owner(self, policy: str, principal: str, client: str, group: str) -> str:
        """Whose limit holds for a principal, client and subscription; see `EffectivePolicies.owner`."""


class BrokerState:
    """What all topics of a broker share: its clients, and what is held of them now.

    :param buckets: makes the buckets of all limits.
    :param places: of limits on counts that it shares with other gateways and workers; None if it is alone.
    """

    __slots__ = ("buckets", "clients", "held", "places")

    def __init__(self, buckets: Buckets = LOCAL, places: SharedPlaces | None = None) -> None:
        self.buckets = buckets
        self.clients = Clients()
        self.held = HeldOperations()
        self.places = places


class _Limiters:
    """Limiters by policy; created on first use, as most topics have none.

    :param buckets: makes the limiters.
    """

    __slots__ = ("buckets", "limiters")

    def __init__(self, buckets: Buckets) -> None:
        self.buckets = buckets
        self.limiters: dict[str, WaitQueue] = {}

    @property
    def limited(self) -> str:
        """What the limiters are for, in their names: the same at all gateways."""
        raise NotImplementedError

    def limiter(
        self,
        policy: str,
        messages_per_s: float,
        bytes_per_s: float,
        burst_seconds: float,
        now_ns: int,
        buckets: Buckets | None = None,
    ) -> WaitQueue:
        """The limiter of a policy, made full if it is new, else brought to these rates with its balance kept.

        :param policy: key; a policy that does not apply to everybody needs its own: no debt is shared.
        :param messages_per_s: 0 is unlimited.
        :param bytes_per_s: 0 is unlimited.
        :param burst_seconds: see DualBucket.
        :param now_ns: monotonic time.
        :param buckets: makes the limiter instead of the broker's.
        """
        queue = self.limiters.get(policy)
        if queue is None:
            name = f"{self.limited}|{policy}"
            make = (buckets or self.buckets).queue
            queue = self.limiters[policy] = make(name, messages_per_s, bytes_per_s, burst_seconds, now_ns)
        else:
            queue.bucket.reconfigure(messages_per_s, bytes_per_s, burst_seconds, now_ns)
        return queue

    def is_evictable(self, now_ns: int) -> bool:
        """True if no operation waits and every bucket is full, so that dropping them changes nothing."""
        return all(not queue.first and queue.bucket.is_full(now_ns) for queue in self.limiters.values())


class SubscriptionState(_Limiters):
    """State of one subscription (or consumer group) of a topic.

    :param name: its name.
    :param topic: the topic's full name.
    :param buckets: makes its limiters.
    """

    __slots__ = ("consumers", "created_ns", "creating", "exists", "name", "topic", "unacked")

    def __init__(self, name: str, topic: str = "", buckets: Buckets = LOCAL) -> None:
        super().__init__(buckets)
        self.name = name
        self.topic = topic
        self.exists = False
        """True if it exists on the broker, as far as is known."""
        self.created_ns = 0
        """When this gate let it be created; 0 if it was learned from the broker."""
        self.creating = 0
        """Requests under way that create it; 0 once the broker is known to have it."""
        self.consumers = Attachments()
        self.unacked: dict[str, int] = {}
        """Messages dispatched and not yet acknowledged, by consumer; kept only where a policy asks."""

    @property
    def limited(self) -> str:
        """Topic and subscription."""
        return f"{self.topic}|{self.name}"


class TopicState(_Limiters):
    """State of one topic.

    :param topic: the topic.
    :param now_ns: monotonic time.
    :param broker: what it shares with the broker's other topics; of its own if left out.
    """

    __slots__ = (
        "_named_counts",
        "_plugin_data",
        "_prune_at",
        "alone_bytes",
        "alone_wire_bytes",
        "attach_ops",
        "batch_counts",
        "batched_bytes",
        "batched_messages",
        "broker",
        "context",
        "delayed",
        "dispatched_bytes",
        "dispatched_messages",
        "dropped",
        "exempt_bytes",
        "exempt_dispatched_bytes",
        "exempt_dispatched_messages",
        "exempt_messages",
        "holds",
        "lock",
        "now_ns",
        "observed",
        "other_ops",
        "producers",
        "rejected",
        "scoping",
        "size_counts",
        "subscriptions",
        "subscriptions_known",
        "subscriptions_needed",
        "topic",
        "violations",
    )

    _prune_at: int
    """Number of subscriptions at which to look for unused ones."""
    attach_ops: int
    """Of the operations allowed, attachments and new subscriptions."""
    context: TopicContext | None
    """What the topic's broker offers; None where gates are compiled without one, as in tests."""
    scoping: Scoping | None
    """Who obeys which policies, set as a gate is compiled; None if all obey the same."""

    def __init__(self, topic: TopicName, now_ns: int, broker: BrokerState | None = None) -> None:
        self.broker = broker or BrokerState()
        super().__init__(self.broker.buckets)
        self.topic = topic
        self.now_ns = now_ns
        """Monotonic time when a gate was last compiled for the topic: the time for build hooks."""
        self.context = self.scoping = None
        self.lock = Lock()
        """Taken while attachments are decided and changed, so that racing ones cannot both be the last."""
        self.producers = Attachments()
        self.subscriptions: dict[str, SubscriptionState] = {}
        self.subscriptions_known = False
        """True once those that exist on the broker were learned, until no policy asks for them any more."""
        self.subscriptions_needed = 0
        """How many existing subscriptions to keep before that, for a limit that counts without the broker."""
        self._prune_at = SUBSCRIPTIONS_BEFORE_PRUNING
        self._plugin_data: dict[str, object] | None = None
        self._named_counts: dict[str, int] | None = None
        self.holds: TimesByKind = defaultdict(HoldTimes)
        """How long operations were held, by kind; kinds of which none was held are left out."""
        self.attach_ops = 0
        self.other_ops = 0
        """Operations allowed other than publishes, which are counted by size."""
        self.alone_bytes = 0
        """Bytes of the messages that were published alone."""
        self.alone_wire_bytes = 0
        """Bytes of the publishes that carried them."""
        self.batched_messages = 0
        """Messages that were not published alone: how large each one is stays unknown."""
        self.batched_bytes = 0
        """Bytes of the publishes that carried these."""
        self.dispatched_messages = self.dispatched_bytes = 0
        self.exempt_messages = self.exempt_bytes = 0
        """Of what was published, the part of exempt principals."""
        self.exempt_dispatched_messages = self.exempt_dispatched_bytes = 0
        self.rejected = self.delayed = self.dropped = 0
        self.observed = 0
        """Decisions that were only observed, of any action."""
        self.size_counts = [0] * SIZE_SLOTS
        """Messages published alone, by bit length of their sizes: slot n counts 2**(n-1) to 2**n - 1."""
        self.batch_counts = [0] * SIZE_SLOTS
        """Publishes of any other number of messages than one, by bit length of their bytes."""
        self.violations: dict[tuple[str, str, str], int] = {}
        """Decisions other than allow, by policy, action (`would_reject` if observed) and outcome."""

    @property
    def limited(self) -> str:
        """The topic."""
        return self.topic.full

    @property
    def plugin_data(self) -> dict[str, object]:
        """A place for plugins' own data, by plugin name."""
        if self._plugin_data is None:
            self._plugin_data = {}
        return self._plugin_data

    def count_allowed(self, op: Operation) -> None:
        """Count an operation that was allowed, for the topic and for its client."""
        totals = self.broker.clients.of(op)
        if op.kind is OperationKind.PUBLISH:
            totals.published_messages += op.messages
            totals.published_bytes += op.bytes
            if op.messages == 1:
                self.size_counts[op.largest.bit_length()] += 1
                self.alone_bytes += op.largest
                self.alone_wire_bytes += op.bytes
            else:
                self.batch_counts[op.bytes.bit_length()] += 1
                self.batched_messages += op.messages
                self.batched_bytes += op.bytes
            return
        self.other_ops += 1
        if op.kind < OperationKind.PUBLISH:
            self.attach_ops += 1
        elif op.kind is OperationKind.DISPATCH:
            totals.dispatched_messages += op.messages
            totals.dispatched_bytes += op.bytes
            self.dispatched_messages += op.messages
            self.dispatched_bytes += op.bytes

    def count(self, metric: str, messages: int) -> None:
        """Count messages under a metric of the broker room."""
        if self._named_counts is None:
            self._named_counts = {}
        self._named_counts[metric] = self._named_counts.get(metric, 0) + messages

    @property
    def named_counts(self) -> Mapping[str, int]:
        """Counters of the broker room, by metric."""
        return self._named_counts or {}

    @property
    def publish_ops(self) -> int:
        """Publishes that were allowed."""
        return sum(self.size_counts) + sum(self.batch_counts)

    @property
    def allowed_messages(self) -> int:
        """Messages published."""
        return sum(self.size_counts) + self.batched_messages

    @property
    def allowed_bytes(self) -> int:
        """Bytes published."""
        return self.alone_wire_bytes + self.batched_bytes

    @property
    def allowed_ops(self) -> int:
        """Operations of any kind that were allowed."""
        return self.publish_ops + self.other_ops

    @property
    def consumer_count(self) -> int:
        """Consumers of all subscriptions together."""
        return sum(len(subscription.consumers) for subscription in self.subscriptions.values())

    @property
    def subscription_count(self) -> int:
        """Subscriptions that exist on the broker, as far as is known."""
        return sum(subscription.exists for subscription in self.subscriptions.values())

    def subscription(self, name: str, now_ns: int = 0) -> SubscriptionState:
        """The state of a subscription, created on demand; this does not create it on the broker.

        :param name: its name.
        :param now_ns: monotonic time; 0 keeps all limiters of others, whether they are full or not.
        """
        state = self.subscriptions.get(name)
        if state is None:
            if len(self.subscriptions) >= self._prune_at:
                self._prune_subscriptions(now_ns)
            state = self.subscriptions[name] = self._new_subscription(name)
        return state

    def _new_subscription(self, name: str) -> SubscriptionState:
        return SubscriptionState(name, self.topic.full, self.buckets)

    def learn_subscriptions(self, names: Iterable[str], asked_ns: int | None = None) -> None:
        """Set which subscriptions exist on the broker.

        One with live consumers is kept even if the list lacks it: it may be younger than the list.

        :param names: all subscriptions of the topic.
        :param asked_ns: when the list was requested; subscriptions admitted since then are kept too.
        """
        existing = frozenset(names)
        for name, subscription in self.subscriptions.items():
            if name not in existing:
                younger = asked_ns is not None and subscription.created_ns >= asked_ns
                if not (subscription.exists and (subscription.consumers or younger)):
                    subscription.exists, subscription.creating = False, 0
        for name in existing:
            listed = self.subscriptions.get(name)
            if listed is None:  # without pruning, which would drop what was just learned
                listed = self.subscriptions[name] = self._new_subscription(name)
            listed.exists, listed.creating = True, 0
        self.subscriptions_known = True

    def confirm(self, name: str) -> None:
        """The broker has a subscription: no request that it refuses takes it back."""
        with self.lock:
            subscription = self.subscription(name)
            subscription.exists, subscription.creating = True, 0

    def take_back(self, name: str) -> None:
        """A request that creates a subscription has failed; others may still create it."""
        with self.lock:
            subscription = self.subscription(name)
            if subscription.creating:
                subscription.creating -= 1
                subscription.exists = bool(subscription.creating or subscription.consumers)
                if self.broker.places is not None and not subscription.exists:
                    self.broker.places.left(self.topic.full, name)

    def commit(self, op: Operation, now_ns: int, *, counted: bool) -> None:
        """Take the place of an attachment that was admitted; the caller has taken the lock.

        :param op: attaches a producer or a consumer, or creates a subscription.
        :param now_ns: monotonic time.
        :param counted: False for exempt principals, who take no place from those who are counted; what they
            create on the broker exists for all, though.
        """
        principal = "" if self.scoping is None else op.principal
        roams = op.roams and self.broker.places is not None
        if op.kind is OperationKind.ATTACH_PRODUCER:
            if counted:
                self.producers.attach(op.producer, op.client, principal, roams=roams)
            return
        subscription = self.subscription(op.subscription)
        is_new = bool(op.subscription) and not subscription.exists
        if is_new:
            subscription.exists = True
            subscription.created_ns = now_ns
        if op.kind is OperationKind.CREATE_SUBSCRIPTION and (is_new or subscription.creating):
            subscription.creating += 1
        if counted and op.kind is OperationKind.ATTACH_CONSUMER:
            subscription.consumers.attach(op.consumer, op.client, principal, roams=roams)

    def release(self, op: Operation) -> None:
        """Give back the place of an operation's producer or consumer; the caller has taken the lock.

        With an operation of kind CREATE_SUBSCRIPTION, the subscription is removed unless it has consumers.
        """
        if self.broker.places is not None:
            self.broker.places.left(self.topic.full, op.producer or op.consumer, op.subscription)
        if op.producer:
            self.producers.detach(op.producer, op.client)
        subscription = self.subscriptions.get(op.subscription)
        if subscription is None:
            return
        if op.consumer and subscription.consumers.detach(op.consumer, op.client):
            subscription.unacked.pop(op.consumer, None)
        if op.kind is OperationKind.CREATE_SUBSCRIPTION and not subscription.consumers:
            subscription.exists, subscription.creating = False, 0

    def is_evictable(self, now_ns: int) -> bool:
        """True if the state can be dropped without losing more than counters."""
        return (
            not self.producers
            and not any(subscription.consumers for subscription in self.subscriptions.values())
            and all(subscription.is_evictable(now_ns) for subscription in self.subscriptions.values())
            and super().is_evictable(now_ns)
        )

    def _prune_subscriptions(self, now_ns: int) -> None:
        """Drop unused subscriptions; without a listing existing ones too, unless a policy needs them.

        Looks again once the number of the others has doubled: a look at each new one would cost the square.
        """
        needed = len(self.subscriptions) if self.subscriptions_known else self.subscriptions_needed
        for name, subscription in tuple(self.subscriptions.items()):
            limits = bool(subscription.limiters) and not (now_ns and subscription.is_evictable(now_ns))
            if subscription.exists and needed:
                needed -= 1
            elif not (subscription.consumers or limits):
                del self.subscriptions[name]
        self._prune_at = max(SUBSCRIPTIONS_BEFORE_PRUNING, 2 * len(self.subscriptions))
