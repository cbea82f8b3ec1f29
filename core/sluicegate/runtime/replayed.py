"""One limit replayed over rows of the decision log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluicegate.engine.bucket import DualBucket
from sluicegate.model import Mode, Operation, OperationKind, split_client
from sluicegate.policies.rate import Rate
from sluicegate.policies.size import MESSAGE_SIZE

if TYPE_CHECKING:
    from sluicegate.decisions.lookback import Row  # it loads Arrow

_MS_NS = 1_000_000
_US_NS = 1_000
_TOP = 5
"""Clients and principals that are named."""
_MOST_NAMES = 10_000
"""Clients that are told apart; the rest counts for the topic alone."""


@dataclass(slots=True)
class Counted:
    """What would have come of messages."""

    messages: int = 0
    held: int = 0
    refused: int = 0

    @property
    def over(self) -> int:
        """Messages that would not have passed at once."""
        return self.held + self.refused

    def add(self, messages: int, held: int, refused: int) -> None:
        """Count some more."""
        self.messages += messages
        self.held += held
        self.refused += refused

    def as_json(self) -> dict[str, Any]:
        """With the share of all messages that would not have passed at once."""
        share = round(self.over / self.messages, 4) if self.messages else 0.0
        return {"messages": self.messages, "held": self.held, "refused": self.refused, "share": share}


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate of one topic."""

    kind: str
    """publish, dispatch, or subscription for a rate of each subscription."""
    rate: Rate
    limits: Mapping[str, float]
    """The limits by policy."""
    max_hold_ms: int
    exempt: frozenset[str]
    buckets: dict[str, DualBucket] = field(default_factory=dict)

    @property
    def mode(self) -> Mode:
        """The mode of the limit: to whom it applies."""
        return self.rate.mode

    @property
    def operation(self) -> str:
        """The operation that it limits."""
        return "publish" if self.kind == "publish" else "dispatch"

    def over(self, row: "Row") -> tuple[int, int]:
        """Messages of a row that would have been held, and refused."""
        if row.action != "allow" and row.policy not in self.limits:
            return 0, 0  # another policy has refused it, and would again
        if self.kind == "subscription" and row.subscription is None:
            return 0, 0
        bucket = self._bucket(row)
        at_ns, messages, nbytes = _time_ns(row), row.messages, row.bytes
        if row.window:
            return self._window_over(bucket, at_ns, messages, nbytes, row.window * _MS_NS)
        wait_ns = bucket.take(messages, nbytes, at_ns)
        return self._late(bucket, at_ns, (messages, nbytes), messages, wait_ns) if wait_ns else (0, 0)

    def _window_over(
        self, bucket: DualBucket, at_ns: int, messages: int, nbytes: int, window_ns: int
    ) -> tuple[int, int]:
        """The same of a window: what comes in while it lasts can be used in it."""
        have_messages, have_bytes = bucket.balance(at_ns)
        share = 1.0
        if messages and self.rate.messages_per_s:
            share = min(share, (have_messages + window_ns * bucket.message_rate) / messages)
        if nbytes and self.rate.bytes_per_s:
            share = min(share, (have_bytes + window_ns * bucket.byte_rate) / nbytes)
        share = max(0.0, share)
        passed = int(messages * share)
        bucket.charge(passed, int(nbytes * share), at_ns)
        if share == 1.0:
            return 0, 0
        late = (messages - passed, nbytes - int(nbytes * share))
        return self._late(bucket, at_ns, late, late[0], bucket.wait(*late, at_ns))

    def _late(
        self, bucket: DualBucket, at_ns: int, need: tuple[int, int], messages: int, wait_ns: int
    ) -> tuple[int, int]:
        """What is held uses the limit later, unless that is longer than it may be held."""
        if self.rate.on_limit != "delay":
            return 0, messages
        if wait_ns <= self.max_hold_ms * _MS_NS:
            bucket.charge(*need, at_ns)
            return messages, 0
        # What is dispatched waits as long as it takes.
        return (0, messages) if self.kind == "publish" else (messages, 0)

    def _bucket(self, row: "Row") -> DualBucket:
        key = (row.subscription or "") if self.kind == "subscription" else ""
        bucket = self.buckets.get(key)
        if bucket is None:
            rates = (self.rate.messages_per_s, self.rate.bytes_per_s, self.rate.burst_seconds)
            bucket = self.buckets[key] = DualBucket(*rates, _time_ns(row))
        return bucket


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The size of a message; of a batch or a window, the mean size of its messages counts."""

    most: int
    mode: Mode
    exempt: frozenset[str]
    kind = operation = "publish"

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits by policy."""
        return {MESSAGE_SIZE: self.most}

    def over(self, row: "Row") -> tuple[int, int]:
        """Messages of a row that would have been held, and refused."""
        is_too_large = row.bytes > self.most * max(1, row.messages)
        return (0, row.messages) if is_too_large else (0, 0)


class Replayed:
    """A limit of one topic, and what it would have done.

    :param broker: name of the broker's entry.
    :param topic: name of the topic.
    :param limit: the limit after the change.
    """

    def __init__(self, broker: str, topic: str, limit: Limit | SizeLimit) -> None:
        self.broker = broker
        self.topic = topic
        self.limit = limit
        self.total = Counted()
        self._unnamed = Counted()
        self._by_client: dict[tuple[str, str], Counted] = {}
        self._in_canary: dict[tuple[str, str], bool] = {}

    def take(self, row: "Row") -> None:
        """Replay the next row of the topic, in order of time."""
        limit = self.limit
        if row.operation != limit.operation or row.principal in limit.exempt:
            return
        counted = (row.messages, *(limit.over(row) if self._applies_to(row) else (0, 0)))
        self.total.add(*counted)
        self._of_client(row).add(*counted)

    def _applies_to(self, row: "Row") -> bool:
        """Whether a canary has the client; what is not known of windows counts as in it."""
        mode = self.limit.mode
        if mode.enforces or row.window:
            return True
        key = (row.principal or "", row.client or "")
        is_in = self._in_canary.get(key)
        if is_in is None:
            op = Operation(OperationKind.PUBLISH, self.topic, principal=key[0], client=key[1])
            is_in = mode.applies_to(next(iter(self.limit.limits)), op)
            if len(self._in_canary) < _MOST_NAMES:
                self._in_canary[key] = is_in
        return is_in

    def answer(self) -> dict[str, Any]:
        """The result as JSON; principals and clients with the most messages above the limit first."""
        by_principal: dict[str, Counted] = {}
        for (principal, _), counted in self._by_client.items():
            total = by_principal.setdefault(principal, Counted())
            total.add(counted.messages, counted.held, counted.refused)
        clients = {key: each for key, each in self._by_client.items() if key[1]}
        return {
            **self.total.as_json(),
            "unnamed_messages": self._unnamed.messages,
            "principals": [{"principal": name, **it.as_json()} for name, it in _most(by_principal)],
            "clients": [
                {"client": client, "principal": principal, **it.as_json()}
                for (principal, client), it in _most(clients)
            ],
        }

    def _of_client(self, row: "Row") -> Counted:
        if row.principal is None and row.client is None:
            return self._unnamed
        key = (row.principal or "", split_client(row.client or "")[0])
        counted = self._by_client.get(key)
        if counted is None:
            if len(self._by_client) >= _MOST_NAMES:
                return self._unnamed
            counted = self._by_client[key] = Counted()
        return counted


def _most(counts: Mapping[Any, Counted]) -> list[tuple[Any, Counted]]:
    limited = [(key, counted) for key, counted in counts.items() if counted.over]
    return sorted(limited, key=lambda each: -each[1].over)[:_TOP]


def _time_ns(row: "Row") -> int:
    return row.time_us * _US_NS
