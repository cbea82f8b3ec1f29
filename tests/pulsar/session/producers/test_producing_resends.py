"""A client that sends again what has no receipt: each message is stored once, in order, and answered."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.session.messages import JAVA, frame, parse, producer_success, receipt, send
from tests.pulsar.session.messages import producer as open_producer
from tests.pulsar.session.producers.test_producing_claims import chunk
from tests.pulsar.session.producers.test_producing_delay import NOW, metadata
from tests.pulsar.session.producers.test_producing_delay import opened as opened_at
from tests.pulsar.session.wire import Bench, Wire

from sluicegate.model import PolicyValue
from sluicegate_pulsar.codec import pulsar_pb2 as pb

NAME = "standalone-0-1"
NOT_STORED = 2**64 - 1
POLICIES: tuple[dict[str, PolicyValue], ...] = (
    {"fixed_delivery_delay": 300},
    {"max_publish_rate": 20},
    {"max_publish_rate": 20, "fixed_delivery_delay": 300},
    {"max_publish_rate": 20, "fixed_delivery_delay": 300, "max_message_size": 60},
    {"max_publish_rate": 20, "max_message_size": 60},
)


class Client:
    """A client as the stock ones are, and a broker that answers when it is told to."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.is_open = True
        self.pending: list[tuple[tuple[int, int], bytes]] = []
        """Sequence id and chunk id of what has no answer, and the frame."""
        self.stored: list[tuple[int, int]] = []
        self.acknowledged: list[tuple[int, int]] = []
        self._unanswered: list[int] = []
        self._requests = 100

    def send(self, key: tuple[int, int], message: bytes) -> None:
        self.pending.append((key, message))
        if self.is_open:
            self.wire.client_sends(message)
        self.look()

    def look(self) -> None:
        """Take note of what has reached either side."""
        for each in self.wire.sent_up():
            self._at_broker(parse(each), each)
        for answer in self.wire.answered():
            self._at_client(answer)
        assert self.wire.closed is None

    def _at_broker(self, command: pb.BaseCommand, each: bytes) -> None:
        if command.HasField("send"):
            sequence_id = command.send.sequence_id
            self.stored.append((sequence_id, metadata(each).chunk_id))
            self._unanswered.append(sequence_id)
        elif command.HasField("producer"):
            self.wire.broker_sends(producer_success(command.producer.request_id))
        elif command.HasField("close_producer"):
            self.wire.broker_sends(frame("success", request_id=command.close_producer.request_id))

    def _at_client(self, answer: pb.BaseCommand) -> None:
        if answer.HasField("close_producer"):
            self.is_open = False
        elif answer.HasField("producer_success"):
            self.is_open = True
            for _, message in self.pending:
                self.wire.client_sends(message)
            self.look()
        elif answer.HasField("send_error"):
            key, _ = self.pending.pop(0)
            assert (key[0], key in self.stored) == (answer.send_error.sequence_id, False)
        elif answer.HasField("send_receipt"):
            key, _ = self.pending.pop(0)
            assert key[0] == answer.send_receipt.sequence_id
            if answer.send_receipt.message_id.ledger_id != NOT_STORED:
                self.acknowledged.append(key)

    def receive(self, count: int) -> None:
        """Have the broker answer so many messages."""
        for sequence_id in self._unanswered[:count]:
            self.wire.broker_sends(receipt(sequence_id))
        del self._unanswered[:count]
        self.look()

    def wait(self, seconds: float) -> None:
        self.wire.wait(seconds)
        self.look()

    def reopen(self) -> None:
        if not self.is_open:
            self._requests += 1
            self.wire.client_sends(open_producer(request_id=self._requests, name=NAME, epoch=1))
            self.look()


STEPS = st.one_of(
    st.tuples(st.just("single"), st.sampled_from([5, 70])),
    st.tuples(st.just("chunked"), st.sampled_from([2, 3, 4])),
    st.tuples(st.just("large"), st.sampled_from([2, 3])),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 1.1, 3.0, 11.0])),
    st.tuples(st.just("memory"), st.sampled_from([0, 100, 300, 1_500, 4_000])),
    st.tuples(st.just("begun"), st.sampled_from([2, 3])),
    st.tuples(st.just("receive"), st.sampled_from([1, 3, 99])),
    st.tuples(st.just("reopen"), st.just(0)),
)


def play(client: Client, bench: Bench, steps: list[tuple[str, float]]) -> None:
    for sequence_id, (kind, number) in enumerate(steps):
        count = int(number)
        if kind == "single":
            client.send((sequence_id, 0), send(sequence_id, bytes(count), publish_time=NOW))
        elif kind in ("chunked", "large", "begun"):
            payload = bytes(40 if kind == "large" else 5)
            for each in range(1 if kind == "begun" else count):
                made = chunk(each, count, payload, count * len(payload), sequence_id, publish_time=NOW)
                client.send((sequence_id, each), made)
        elif kind == "wait":
            client.wait(number)
        elif kind == "memory":
            bench.budget.limit = count
        elif kind == "receive":
            client.receive(count)
        else:
            client.reopen()


@settings(deadline=None, max_examples=100)
@given(
    st.lists(STEPS, min_size=5, max_size=40),
    st.sampled_from(POLICIES),
    st.sampled_from([0, 3, 8]),
    st.sampled_from([6_000, 100_000]),
)
def test_all_messages_are_answered_and_stored_once_and_in_order(
    steps: list[tuple[str, float]], policies: dict[str, PolicyValue], queue: int, room: int
) -> None:
    bench = Bench(policies)
    options = {"max_hold": "4s", "chunk_buffer": room, "publish_queue": {"messages": queue}}
    client = Client(opened_at(bench, version=JAVA, **options))
    play(client, bench, steps)
    bench.budget.limit = 0
    for _ in range(200):
        if not client.pending:
            break
        client.wait(1)
        client.receive(99)
        client.reopen()
    assert client.pending == []
    assert client.stored == sorted(set(client.stored)) == client.acknowledged
    assert bench.budget.used == 0
