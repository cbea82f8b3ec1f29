"""A limit on messages and bytes per second of a topic or a subscription, as the policies set it."""

from dataclasses import dataclass

from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.state import SubscriptionState, TopicState
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.model import EffectivePolicies, Mode, Operation, Outcome, Reason

BURST_SECONDS = "burst_seconds"
DEFAULT_BURST_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Rate:
    """The limit on one kind of rate of a topic, for one mode."""

    what: str
    names: tuple[str, str]
    """Names of the policies for messages and for bytes."""
    messages_per_s: float
    bytes_per_s: float
    burst_seconds: float
    levels: tuple[str, str]
    """The levels that set these policies."""
    on_limit: str
    """The action above the limit; messages and bytes share it."""
    mode: Mode

    @property
    def name(self) -> str:
        """Name of the policy; the one for messages if both are set."""
        return self.names[0] if self.messages_per_s else self.names[1]

    @property
    def key(self) -> str:
        """Key of the limiter. Each kind of mode has another: debt of one must never hold the others."""
        if self.mode.enforces:
            return self.names[0]
        # Messages and bytes may have canaries that differ, but only one of their modes observes.
        return f"{self.mode.kind} {self.names[0] if self.mode.observes else self.name}"

    def queue(self, holder: TopicState | SubscriptionState, now_ns: int) -> WaitQueue:
        """The limiter, updated to the current rates."""
        return holder.limiter(self.key, self.messages_per_s, self.bytes_per_s, self.burst_seconds, now_ns)

    def reason(self, bucket: DualBucket, op: Operation, now_ns: int) -> Reason:
        """The reason for the dimension (messages or bytes) with the longer wait."""
        short = bucket.shortage(op.messages, op.bytes, now_ns)
        name = self.names[short.by_bytes]
        where = f"topic {op.topic}"
        if self.what == "Subscription dispatch":
            where += f" subscription {op.subscription}"
        text = f"{self.what} rate limit exceeded for {where}. {short} Slow down or increase {name} policy."
        level = self.levels[short.by_bytes]
        return Reason(name, Outcome.LIMIT_REACHED, text, short.current, short.limit, level)


def rates_of(policies: EffectivePolicies, what: str, messages: str, nbytes: str) -> list[Rate]:
    """The limits on one kind of rate: none, one, or two if its dimensions differ in mode."""
    names = (messages, nbytes)
    if policies.values.keys().isdisjoint(names):
        return []
    found = []
    for mode in policies.modes(names):
        limits = [policies.number(name) if policies.mode(name) == mode else 0 for name in names]
        if any(limits):
            burst = policies.number(BURST_SECONDS) or DEFAULT_BURST_SECONDS
            levels = policies.level(messages), policies.level(nbytes)
            on_limit = policies.on_limit(names)
            found.append(Rate(what, names, limits[0], limits[1], burst, levels, on_limit, mode))
    return found


def publish_rates(policies: EffectivePolicies) -> list[Rate]:
    """The limits on publishing to a topic."""
    return rates_of(policies, "Publish", "max_publish_rate", "max_publish_rate_bytes")
