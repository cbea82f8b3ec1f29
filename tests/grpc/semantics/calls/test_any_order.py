"""Calls in any order: counts stay within the limits, and fall to zero in the end."""

from hypothesis import given
from hypothesis import strategies as st
from tests.grpc.semantics.calls.lab import GHOST_NS, SECOND, Asking, Lab, method, opens, values

from sluicegate_grpc.semantics.calls import Caller, Stream


class _World:
    """Two connections, four producers and consumers. `number` chooses one of these, `which` a connection."""

    def __init__(self) -> None:
        self.lab = Lab(max_producers_per_topic=2, max_consumers_per_topic=2, max_subscriptions_per_topic=3)
        self.callers = [Caller("me", "peer:1"), Caller("me", "peer:2")]
        self.pending: list[tuple[Asking, int, int]] = []
        self.streams: list[Stream] = []
        self.now_ns = 0

    def attach(self, number: int, which: int) -> None:
        ask = self.lab.ask_producer if number % 2 else self.lab.ask_consumer
        self.pending.append((ask(f"n{number}", self.callers[which], self.now_ns), number, which))

    def attached(self, number: int, which: int) -> None:
        if self.pending:
            attaching, called, _ = self.pending.pop(number % len(self.pending))
            if attaching.decision is None:
                attaching.attached(called, self.now_ns)

    def failed(self, number: int, which: int) -> None:
        if self.pending:
            self.pending.pop(number % len(self.pending))[0].failed(self.now_ns)

    def publish(self, number: int, which: int) -> None:
        self.lab.publish(number, self.callers[which], self.now_ns)

    def gone(self, number: int, which: int) -> None:
        for attaching, _, who in self.pending:  # calls end with their connection
            if who == which:
                attaching.failed(self.now_ns)
        self.pending = [each for each in self.pending if each[2] != which]
        self.lab.attachments.caller_closed(self.callers[which], self.now_ns)

    def leave(self, number: int, which: int) -> None:
        message = values(attachment=number)
        self.lab.calls.detach(method("Leave"), message, self.callers[which], self.now_ns)

    def ghosts(self, number: int, which: int) -> None:
        self.now_ns += GHOST_NS
        self.lab.attachments.release_ghosts(self.now_ns)

    def open(self, number: int, which: int) -> None:
        message = values(consumer=number)
        calls = self.lab.calls
        stream = calls.dispatching(method("Receive"), message, self.callers[which], self.now_ns)
        if stream is not None and opens(stream, self.now_ns):
            self.streams.append(stream)

    def close(self, number: int, which: int) -> None:
        if self.streams:
            self.streams.pop(number % len(self.streams)).close(self.now_ns, has_left=bool(which))


_KINDS = ["attach", "attached", "failed", "publish", "gone", "leave", "ghosts", "open", "close"]
_STEPS = st.lists(
    st.tuples(st.sampled_from(_KINDS), st.integers(0, 3), st.integers(0, 1)), min_size=5, max_size=60
)


@given(_STEPS)
def test_counts_stay_within_limits_and_fall_to_zero(steps: list[tuple[str, int, int]]) -> None:
    world = _World()
    for kind, number, which in steps:
        world.now_ns += SECOND
        getattr(world, kind)(number, which)
        assert world.lab.producers <= 2
        assert world.lab.consumers <= 2
    while world.pending:
        world.failed(0, 0)
    while world.streams:
        world.close(0, 1)
    world.gone(0, 0)
    world.gone(0, 1)
    world.ghosts(0, 0)
    world.ghosts(0, 0)
    assert (world.lab.producers, world.lab.consumers) == (0, 0)
    assert not any(caller.places for caller in world.callers)
