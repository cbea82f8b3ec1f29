"""For any behaviour of broker and client: order, permits, bounds and due times hold, and nothing is lost."""

from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.pulsar.session.deliveries import EXCLUSIVE, ack, attach, flow, message
from tests.pulsar.session.messages import TYPES, frame
from tests.pulsar.session.wire import Bench, Wire

BUFFER = 64 * 1024
WINDOW = 40
"""Messages that the client takes at once."""
DELAY_MS = 700


@dataclass(frozen=True)
class Entry:
    """One stored entry."""

    messages: int
    size: int
    ahead_ms: int
    """How far its time stamp is from when it was stored."""


ENTRIES = st.lists(
    st.builds(
        Entry, st.sampled_from([1, 1, 1, 7, 60]), st.sampled_from([10, 500, 9_000]), st.integers(-900, 300)
    ),
    min_size=1,
    max_size=40,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(1, 900)),
        st.tuples(st.just("send"), st.integers(1, 9)),
        st.tuples(st.just("ack"), st.booleans()),
        st.tuples(st.just("redeliver"), st.booleans()),
        st.tuples(st.just("policies"), st.integers(0, 7)),
    ),
    max_size=25,
)


def policies(choice: int) -> dict[str, int]:
    """Some of the policies that withhold."""
    found = {}
    if choice & 1:
        found["max_dispatch_rate"] = 20
    if choice & 2:
        found["fixed_delivery_delay"] = DELAY_MS
    if choice & 4:
        found["max_unacked_messages_per_consumer"] = 30
    return found


@dataclass
class Run:
    """A broker with one exclusive consumer, and its client; both keep to the rules."""

    entries: list[Entry]
    wire: Wire
    bench: Bench
    choice: int
    stored_ms: int = 0
    cursor: int = 0
    """The entry that the broker reads next."""
    permits: int = 0
    """What the broker has."""
    pipe: list[int] = field(default_factory=list)
    """Entries that the broker has sent and the gate has not got."""
    granted: int = 0
    received: int = 0
    """Messages that the client got, so as to grant permits for them."""
    got: list[int] = field(default_factory=list)
    """Entries since the last redelivery."""
    ever: set[int] = field(default_factory=set)
    unsettled: list[int] = field(default_factory=list)
    """Entries that the client got and has to acknowledge, also those that it got twice."""
    acked: set[int] = field(default_factory=set)
    first: int = 0
    """The first entry since the last redelivery."""
    strict: bool = True
    """False once the broker sent entries again that were on their way."""
    delayed: bool = False
    """Whether the delay was set all the time."""

    def start(self) -> None:
        """The client subscribes and grants its window."""
        self.stored_ms = self.wire.shared.wall_ms(self.wire.now)
        self.delayed = bool(self.choice & 2)
        attach(self.wire, kind=EXCLUSIVE)
        self.grant(WINDOW)

    def grant(self, permits: int) -> None:
        """The client sends FLOW."""
        self.granted += permits
        self.wire.client_sends(flow(permits))
        self.settle()

    def published_ms(self, number: int) -> int:
        """The time stamp of an entry."""
        return self.stored_ms + self.entries[number].ahead_ms

    def serve(self) -> None:
        """What the gateway has sent reaches the broker, which sends what it may."""
        for command in self.wire.forwarded():
            if command.type == TYPES.FLOW:
                self.permits += command.flow.message_permits
            elif command.type == TYPES.REDELIVER_UNACKNOWLEDGED_MESSAGES:
                self.cursor = min(set(range(len(self.entries))) - self.acked, default=len(self.entries))
        while self.permits > 0 and self.cursor < len(self.entries):
            if self.cursor not in self.acked:
                self.pipe.append(self.cursor)
                self.permits -= self.entries[self.cursor].messages
            self.cursor += 1

    def arrive(self) -> int:
        """What the gateway has sent reaches the client; tells how many messages."""
        now_ms = self.wire.shared.wall_ms(self.wire.now)
        messages = 0
        for answer in self.wire.answered():
            assert answer.type == TYPES.MESSAGE
            number = answer.message.message_id.entry_id
            if self.delayed:
                assert now_ms >= self.published_ms(number) + DELAY_MS
            self.got.append(number)
            self.ever.add(number)
            self.unsettled.append(number)
            messages += self.entries[number].messages
        self.received += messages
        return messages

    def settle(self) -> None:
        """What the gateway has sent reaches both sides, and nothing is amiss."""
        if self.is_overfull:
            return
        self.serve()
        messages = self.arrive()
        on_the_way = sum(self.entries[number].messages for number in self.pipe)
        assert max(self.permits, 0) + on_the_way <= self.granted - self.received + 59
        assert self.wire.session.held_bytes <= BUFFER
        if self.strict:
            left = [number for number in range(self.first, len(self.entries)) if number not in self.before]
            assert self.got == left[: len(self.got)]
        if messages:
            self.grant(messages)

    before: set[int] = field(default_factory=set)
    """Entries that were acknowledged at the last redelivery."""

    def send(self, count: int) -> None:
        """Some of what the broker sent reaches the gateway."""
        frames = []
        for number in self.pipe[:count]:
            entry = self.entries[number]
            frames.append(
                message(
                    number,
                    b"x" * entry.size,
                    publish_time=self.published_ms(number),
                    num_messages_in_batch=entry.messages,
                )
            )
        del self.pipe[:count]
        self.wire.broker_sends(*frames)
        self.settle()

    def acknowledge(self, cumulative: bool) -> None:
        """The client acknowledges what it has, all at once or one."""
        pending = self.unsettled
        if not pending:
            return
        if cumulative and self.strict:
            self.acked.update(pending)
            self.wire.client_sends(ack(pending[-1], cumulative=True))
            pending.clear()
        else:
            self.acked.add(pending[0])
            self.wire.client_sends(ack(pending.pop(0)))
        self.settle()

    def redeliver(self, arrived: bool) -> None:
        """The client wants again what it has not acknowledged."""
        if arrived:
            self.send(len(self.pipe))
        # Policies that have just changed may let go of what the client then gets before it asks.
        self.wire.client_sends(frame("ping"))
        self.settle()
        self.strict = self.strict and not self.pipe
        self.wire.client_sends(frame("redeliver_unacknowledged_messages", consumer_id=0))
        self.got.clear()
        self.unsettled.clear()
        self.first = min(set(range(len(self.entries))) - self.acked, default=len(self.entries))
        self.before = set(self.acked)
        self.settle()

    def change(self, choice: int) -> None:
        """Other policies."""
        self.bench.set(**policies(choice))
        self.delayed = self.delayed and bool(choice & 2)

    @property
    def is_overfull(self) -> bool:
        """Whether the gateway had the consumer start again."""
        return self.wire.shared.counts["consumer_overfull"] > 0

    def step(self, what: str, value: int) -> None:
        """One step of a plan."""
        if what == "wait":
            self.wire.wait(value / 1000)
            self.settle()
        elif what == "send":
            self.send(value)
        elif what == "ack":
            self.acknowledge(bool(value))
        elif what == "redeliver":
            self.redeliver(bool(value))
        else:
            self.change(value)

    def finish(self) -> None:
        """Everything arrives, time passes, and the client acknowledges what it gets."""
        for _ in range(3 * len(self.entries) + 60):
            if self.is_overfull or (len(self.ever) == len(self.entries) and not self.wire.session.held_bytes):
                return
            self.wire.forget()
            self.send(len(self.pipe))
            self.wire.wait(1)
            self.settle()
            for _ in range(len(self.entries)):
                self.acknowledge(cumulative=False)


_AGAIN = [("send", 1), ("redeliver", False)]
_AGAIN_ARRIVED = [("redeliver", True), ("send", 1), ("redeliver", True)]


@settings(max_examples=120, deadline=None)
@given(ENTRIES, st.integers(0, 7), STEPS)
# The wake-up for a delay that does not apply any more is also the one for the rate.
@example(
    [Entry(1, 10, 0), Entry(1, 10, 0), Entry(60, 10, 0), Entry(1, 10, 0)],
    2,
    [*_AGAIN, *_AGAIN, ("policies", 1), *_AGAIN_ARRIVED, ("send", 1), ("send", 1)],
)
def test_nothing_is_lost_early_or_out_of_order(
    entries: list[Entry], choice: int, steps: list[tuple[str, int]]
) -> None:
    bench = Bench(**policies(choice))
    run = Run(entries, Wire(bench, consumer_buffer=f"{BUFFER // 1024}KiB"), bench, choice)
    run.start()
    for what, value in steps:
        run.step(what, value)
        if run.is_overfull:
            return
    run.finish()
    if not run.is_overfull:
        assert run.ever == set(range(len(entries)))
        assert (run.wire.session.held_bytes, bench.budget.used) == (0, 0)
