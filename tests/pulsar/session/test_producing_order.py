"""Whatever happens in whatever order: messages reach the broker once and in order, and so do answers."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.session.messages import frame, producer, producer_success, receipt, send
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb

_PRODUCERS = 3
_QUEUE = 5
_LARGE = b"x" * 50

_steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("send"),
            st.lists(st.tuples(st.integers(0, _PRODUCERS - 1), st.booleans()), min_size=1, max_size=8),
        ),
        st.tuples(st.just("answer"), st.lists(st.integers(0, _PRODUCERS - 1), min_size=1, max_size=8)),
        st.tuples(st.just("wait"), st.floats(0.001, 3)),
    ),
    max_size=40,
)


class _Ends:
    """A client that numbers its messages and a broker that answers them in order.

    Producers 0 and 1 share a topic with a rate; all topics refuse what is large.
    """

    def __init__(self, *, reject: bool) -> None:
        self.bench = Bench({"on_limit.max_publish_rate": "reject"} if reject else None, max_message_size=49)
        self.bench.set_topic("slow", max_publish_rate=2)
        self.wire = Wire(self.bench, publish_queue={"messages": _QUEUE})
        for number in range(_PRODUCERS):
            topic = "fast" if number == 2 else "slow"
            self.wire.client_sends(producer(number, request_id=number, topic=topic))
            self.wire.broker_sends(producer_success(number, f"p-{number}"))
        self.wire.sent_up()
        self.wire.sent_down()
        self.unsent: deque[bytes] = deque()
        self.sent: list[list[tuple[int, bool]]] = [[] for _ in range(_PRODUCERS)]
        self.stored: list[list[int]] = [[] for _ in range(_PRODUCERS)]
        self.unanswered: list[deque[int]] = [deque() for _ in range(_PRODUCERS)]
        self.told: list[list[tuple[int, bool]]] = [[] for _ in range(_PRODUCERS)]

    def send(self, what: list[tuple[int, bool]]) -> None:
        """Several messages in one piece, unless the gate reads nothing just now."""
        for number, is_large in what:
            sequence_id = len(self.sent[number])
            self.sent[number].append((sequence_id, is_large))
            self.unsent.append(send(sequence_id, _LARGE if is_large else b"small", number))
        self.look()

    def answer(self, number: int) -> None:
        """The broker answers one producer's next message."""
        if self.unanswered[number]:
            sequence_id = self.unanswered[number].popleft()
            if sequence_id % 5:
                self.wire.broker_sends(receipt(sequence_id, number))
            else:
                self.wire.broker_sends(
                    frame("send_error", producer_id=number, sequence_id=sequence_id, error=2, message="no")
                )
        self.look()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.wire.wait(seconds)
        self.look()

    @property
    def told_everything(self) -> bool:
        """Whether every message was answered."""
        return not self.unsent and all(
            len(sent) == len(told) for sent, told in zip(self.sent, self.told, strict=True)
        )

    def look(self) -> None:
        """Take what has arrived, and send on if the gate reads."""
        if self.unsent and not self.wire.is_paused:
            data = b"".join(self.unsent)
            self.unsent.clear()
            self.wire.client_sends(data)
        for command in self.wire.forwarded():
            number = command.send.producer_id
            self.stored[number].append(command.send.sequence_id)
            self.unanswered[number].append(command.send.sequence_id)
        for command in self.wire.answered():
            is_error = command.type == pb.BaseCommand.SEND_ERROR
            told = command.send_error if is_error else command.send_receipt
            self.told[told.producer_id].append((told.sequence_id, is_error))
        producers = self.wire.session.producing._live.values()
        assert all(len(each.queue) <= _QUEUE and len(each.refusals) <= _QUEUE for each in producers)


def _run(ends: _Ends, steps: list[tuple[str, object]]) -> None:
    for name, argument in steps:
        if name == "answer":
            for number in argument:  # type: ignore[attr-defined]
                ends.answer(number)
        else:
            getattr(ends, name)(argument)
    for _ in range(400):
        if ends.told_everything:
            break
        ends.wait(1)
        for number in range(_PRODUCERS):
            while ends.unanswered[number]:
                ends.answer(number)


@settings(deadline=None)
@given(_steps)
def test_where_messages_wait(steps: list[tuple[str, object]]) -> None:
    ends = _Ends(reject=False)
    _run(ends, steps)
    for number in range(_PRODUCERS):
        small = [sequence_id for sequence_id, is_large in ends.sent[number] if not is_large]
        assert ends.stored[number] == small
        assert [sequence_id for sequence_id, _ in ends.told[number]] == list(range(len(ends.sent[number])))
    assert not ends.wire.is_paused
    assert ends.bench.budget.used == 0
    assert ends.wire.closed is None


@settings(deadline=None)
@given(_steps)
def test_where_messages_are_refused(steps: list[tuple[str, object]]) -> None:
    ends = _Ends(reject=True)
    _run(ends, steps)
    for number in range(_PRODUCERS):
        assert [sequence_id for sequence_id, _ in ends.told[number]] == list(range(len(ends.sent[number])))
        refused = {sequence_id for sequence_id, is_error in ends.told[number] if is_error}
        stored = ends.stored[number]
        assert stored == sorted(set(stored))
        assert {sequence_id for sequence_id, _ in ends.sent[number]} - refused <= set(stored)
    assert ends.bench.budget.used == 0


@settings(deadline=None)
@given(_steps, st.booleans())
def test_nothing_is_left_of_a_connection_that_ends(steps: list[tuple[str, object]], reject: bool) -> None:
    ends = _Ends(reject=reject)
    for name, argument in steps:
        if name == "answer":
            continue
        getattr(ends, name)(argument)
    ends.wire.close()
    assert ends.bench.budget.used == 0
    for state in ends.bench.gates.states.values():
        assert len(state.producers) == 0
        assert all(line.first is None for line in state.limiters.values())
