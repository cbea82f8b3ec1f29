"""However requests and responses are cut into pieces, none is lost, doubled or reordered."""

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka.codec.entities import decode_request
from tests.kafka.session.messages import batch, fetch, fetched, produce, produced, topics_of
from tests.kafka.session.wire import Bench, Wire

PRODUCE, FETCH = 0, 1
RATE = 20
PIECES = st.lists(st.one_of(st.integers(1, 50), st.integers(50, 2000)), min_size=1, max_size=6)


@dataclass(frozen=True)
class Sent:
    """A request of the client."""

    what: str
    """`fetch`, or the topics of a Produce request; upper case for messages that are too large."""
    records: int
    acks: int = -1

    def frame(self, correlation_id: int) -> bytes:
        """The request with its length."""
        if self.what == "fetch":
            return fetch("a", "b", correlation_id=correlation_id)
        topics = {
            topic.lower(): batch(*[b"x" * (60 if topic.isupper() else 5)] * self.records)
            for topic in self.what
        }
        return produce(topics, correlation_id=correlation_id, acks=self.acks)


REQUESTS = st.lists(
    st.builds(
        Sent,
        st.sampled_from(["fetch", "a", "b", "A", "ab", "aB", "AB"]),
        st.integers(1, 25),
        st.sampled_from([-1, -1, -1, 0]),
    ),
    min_size=2,
    max_size=10,
)


class Broker:
    """Answers what reaches it, in order, in pieces."""

    def __init__(self, wire: Wire, pieces: list[int]) -> None:
        self._wire = wire
        self._pieces = pieces
        self.seen: list[int] = []

    def serve(self) -> None:
        """Answer what has come; what the gateway says meanwhile may wake a held request."""
        answers = b""
        for frame in self._wire.forwarded():
            correlation_id = int.from_bytes(frame[4:8], "big")
            self.seen.append(correlation_id)
            if frame[1] == FETCH:
                answers += fetched({"a": batch(*[b"y"] * 7), "b": batch(b"z")}, correlation_id)
            elif decode_request(frame, PRODUCE, 9).acks != 0:
                answers += produced(*topics_of(frame), correlation_id=correlation_id)
        place = 0
        while answers:
            size = self._pieces[place % len(self._pieces)]
            place += 1
            self._wire.broker_sends(answers[:size])
            answers = answers[size:]


@settings(max_examples=150, deadline=None)
@given(REQUESTS, PIECES, PIECES, st.booleans(), st.booleans())
def test_every_request_is_answered_once_and_in_order(
    requests: list[Sent], client_pieces: list[int], broker_pieces: list[int], dispatch: bool, late: bool
) -> None:
    limits = {"max_dispatch_rate": RATE} if dispatch else {}
    bench = Bench(max_publish_rate=RATE, max_message_size=50, **limits)
    wire = Wire(bench)
    broker = Broker(wire, broker_pieces)
    stream = b"".join(each.frame(number) for number, each in enumerate(requests))
    place = 0
    while stream:
        size = client_pieces[place % len(client_pieces)]
        place += 1
        wire.client_sends(stream[:size])
        stream = stream[size:]
        if not late:
            broker.serve()
    for _ in range(400):
        wire.wait(0.1)
        broker.serve()
    assert wire.closed is None
    answered = [int.from_bytes(answer[:4], "big") for answer in wire.answered()]
    expected = [number for number, each in enumerate(requests) if each.what == "fetch" or each.acks != 0]
    assert answered == expected
    assert wire.downstream == b""
    assert broker.seen == sorted(broker.seen)
    assert (bench.budget.used, wire.session.held_bytes) == (0, 0)
