"""Whatever happens in whatever order: messages reach the broker once and in order, and so do answers.

Producers that the gateway closes are reopened by their client, now or later, and send again what is
pending.
"""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.session.messages import frame, producer, producer_success, receipt, send
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.session.producer_state.lifecycle import State

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
        st.tuples(st.just("broker_closes"), st.lists(st.integers(0, _PRODUCERS - 1), min_size=1, max_size=1)),
        st.tuples(st.just("client_closes"), st.lists(st.integers(0, _PRODUCERS - 1), min_size=1, max_size=1)),
        st.tuples(st.just("reopen"), st.lists(st.integers(0, _PRODUCERS - 1), min_size=1, max_size=3)),
        st.tuples(st.just("wait"), st.floats(0.001, 12)),
    ),
    max_size=40,
)


class _Producer:
    """A client's producer: it keeps what has no answer, and sends it again when it is reopened."""

    def __init__(self, number: int, topic: str) -> None:
        self.number = number
        self.topic = topic
        self.name = f"p-{number}"
        self.sent: list[tuple[int, bool]] = []
        self.pending: deque[tuple[int, bool]] = deque()
        self.told: list[tuple[int, bool]] = []
        self.is_open = True
        self.is_done = False
        """True once the client has closed it for good."""
        self.is_at_broker = True
        self.stored: list[int] = []
        self.unanswered: deque[int] = deque()

    def frame(self, message: tuple[int, bool]) -> bytes:
        """A message as it is sent."""
        sequence_id, is_large = message
        return send(sequence_id, _LARGE if is_large else b"small", self.number)

    def answer(self, sequence_id: int, is_error: bool) -> None:
        """A receipt or an error; clients hang up if it is not for the first that is pending."""
        assert self.is_open
        assert self.pending[0][0] == sequence_id
        self.pending.popleft()
        self.told.append((sequence_id, is_error))


class _Ends:
    """A client that numbers its messages and a broker that answers them in order.

    Producers 0 and 1 share a topic with a rate; all topics refuse what is large.

    :param reject: whether messages above the rate are refused.
    :param budget: bytes that may be held.
    """

    def __init__(self, *, reject: bool, budget: int = 0) -> None:
        self.bench = Bench({"on_limit.max_publish_rate": "reject"} if reject else None, max_message_size=49)
        self.bench.set_topic("slow", max_publish_rate=2)
        self.bench.budget.limit = budget
        self.wire = Wire(self.bench, publish_queue={"messages": _QUEUE})
        self.producers = [
            _Producer(number, "fast" if number == 2 else "slow") for number in range(_PRODUCERS)
        ]
        for each in self.producers:
            self.wire.client_sends(producer(each.number, request_id=each.number, topic=each.topic))
            self.wire.broker_sends(producer_success(each.number, each.name))
        self.wire.sent_up()
        self.wire.sent_down()
        self.requests: dict[int, _Producer] = {}
        """By which closed producers were opened anew."""

    def do(self, name: str, argument: object) -> None:
        """One step."""
        if name == "client_closes" and self.bench.budget.limit:
            return  # without room for its close the connection ends
        if name in ("send", "wait"):
            getattr(self, name)(argument)
        else:
            for number in argument:  # type: ignore[attr-defined]
                getattr(self, name)(number)

    def send(self, what: list[tuple[int, bool]]) -> None:
        """Several messages in one piece; a closed producer keeps its own."""
        frames = []
        for number, is_large in what:
            each = self.producers[number]
            if each.is_done:
                continue
            message = (len(each.sent), is_large)
            each.sent.append(message)
            each.pending.append(message)
            if each.is_open:
                frames.append(each.frame(message))
        if frames:
            self.wire.client_sends(*frames)
        self.look()

    def answer(self, number: int) -> None:
        """The broker answers one producer's next message."""
        each = self.producers[number]
        if each.unanswered:
            sequence_id = each.unanswered.popleft()
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

    def broker_closes(self, number: int) -> None:
        """The broker closes a producer and has not stored what it has not answered."""
        each = self.producers[number]
        if not each.is_at_broker:
            return
        each.is_at_broker = False
        del each.stored[len(each.stored) - len(each.unanswered) :]
        each.unanswered.clear()
        self.wire.broker_sends(frame("close_producer", producer_id=number, request_id=2**64 - 1))
        self.look()

    def client_closes(self, number: int) -> None:
        """The client closes a producer for good; one that is closed already it just forgets."""
        each = self.producers[number]
        if each.is_open and not each.is_done:
            self.wire.client_sends(frame("close_producer", producer_id=number, request_id=500 + number))
        each.is_done = True
        self.look()

    def reopen(self, number: int) -> None:
        """The client reopens a producer that was closed."""
        each = self.producers[number]
        request_id = 1_000 + len(self.requests)
        if each.is_open or each.is_done or each in self.requests.values():
            return
        self.requests[request_id] = each
        opening = producer(number, request_id=request_id, topic=each.topic, name=each.name)
        self.wire.client_sends(opening)
        self.look()

    @property
    def told_everything(self) -> bool:
        """Whether every message was answered."""
        return not any(each.pending for each in self.producers if not each.is_done)

    def look(self) -> None:
        """Take what has arrived."""
        self.wire.take_turns()
        for command in self.wire.forwarded():
            self._forwarded(command)
        for command in self.wire.answered():
            self._answered(command)
        live = self.wire.session.producing._live.values()
        assert all(
            len(each.queue) + len(each.refusals) <= _QUEUE + (each.lifecycle.state is State.CLOSING)
            for each in live
        )
        assert not self.wire.is_paused

    def _forwarded(self, command: pb.BaseCommand) -> None:
        if command.type == pb.BaseCommand.SEND:
            each = self.producers[command.send.producer_id]
            each.stored.append(command.send.sequence_id)
            each.unanswered.append(command.send.sequence_id)
        elif command.type == pb.BaseCommand.PRODUCER:
            # The broker had closed it, or the gateway had given it up.
            self.producers[command.producer.producer_id].is_at_broker = True
            self.wire.broker_sends(
                producer_success(command.producer.request_id, command.producer.producer_name)
            )
        elif command.type == pb.BaseCommand.CLOSE_PRODUCER:
            each = self.producers[command.close_producer.producer_id]
            each.is_at_broker = False
            while each.unanswered:  # a broker closes a producer behind the receipts of all that it sent
                self.answer(each.number)
            self.wire.broker_sends(frame("success", request_id=command.close_producer.request_id))

    def _answered(self, command: pb.BaseCommand) -> None:
        if command.type == pb.BaseCommand.CLOSE_PRODUCER:
            each = self.producers[command.close_producer.producer_id]
            assert each.is_open
            assert not each.unanswered
            each.is_open = False
        elif command.type == pb.BaseCommand.PRODUCER_SUCCESS:
            each = self.requests.pop(command.producer_success.request_id)
            each.is_open = True
            self.wire.client_sends(*map(each.frame, each.pending))
            self.look()
        elif command.type != pb.BaseCommand.SUCCESS:
            is_error = command.type == pb.BaseCommand.SEND_ERROR
            told = command.send_error if is_error else command.send_receipt
            self.producers[told.producer_id].answer(told.sequence_id, is_error)


def _run(ends: _Ends, steps: list[tuple[str, object]]) -> None:
    for name, argument in steps:
        ends.do(name, argument)
    for _ in range(1_000):
        if ends.told_everything:
            break
        ends.wait(1)
        for each in ends.producers:
            ends.reopen(each.number)
            while each.unanswered:
                ends.answer(each.number)
    assert ends.told_everything
    ends.wait(30)


@settings(deadline=None)
@given(_steps, st.sampled_from([0, 100, 600, 3_000]))
def test_order_is_kept_while_messages_wait(steps: list[tuple[str, object]], budget: int) -> None:
    ends = _Ends(reject=False, budget=budget)
    _run(ends, steps)
    for each in ends.producers:
        small = [sequence_id for sequence_id, is_large in each.sent if not is_large]
        told = [sequence_id for sequence_id, _ in each.told]
        # What its client had not been told of when it closed the producer may be stored or not.
        assert each.stored == (small[: len(each.stored)] if each.is_done else small)
        assert told == list(range(len(told) if each.is_done else len(each.sent)))
        assert {sequence_id for sequence_id, is_error in each.told if not is_error} <= set(each.stored)
    assert ends.bench.budget.used == 0
    assert ends.wire.closed is None


@settings(deadline=None)
@given(_steps)
def test_order_is_kept_while_messages_are_refused(steps: list[tuple[str, object]]) -> None:
    ends = _Ends(reject=True)
    _run(ends, steps)
    for each in ends.producers:
        told = [sequence_id for sequence_id, _ in each.told]
        assert told == list(range(len(told) if each.is_done else len(each.sent)))
        assert each.stored == sorted(set(each.stored))
        assert {sequence_id for sequence_id, is_error in each.told if not is_error} <= set(each.stored)
    assert ends.bench.budget.used == 0


@settings(deadline=None)
@given(_steps, st.booleans(), st.sampled_from([0, 600]))
def test_a_closed_connection_leaves_nothing_behind(
    steps: list[tuple[str, object]], reject: bool, budget: int
) -> None:
    ends = _Ends(reject=reject, budget=budget)
    for name, argument in steps:
        if name != "answer":
            ends.do(name, argument)
    ends.wire.close()
    assert ends.bench.budget.used == 0
    for state in ends.bench.gates.states.values():
        assert len(state.producers) == 0
        assert all(line.first is None for line in state.limiters.values())
