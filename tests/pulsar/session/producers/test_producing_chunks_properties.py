"""Whatever comes in whichever order: each SEND has one answer, in the order in which clients sent them."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.session.messages import JAVA, frame, parse, receipt, send
from tests.pulsar.session.producers.test_producing_claims import chunk
from tests.pulsar.session.producers.test_producing_delay import NOW, metadata
from tests.pulsar.session.producers.test_producing_delay import opened as opened_at
from tests.pulsar.session.wire import Bench, Wire

LIMIT = 400


@st.composite
def histories(draw: st.DrawFn) -> list[bytes | float]:
    """Frames of one producer and pauses in seconds: chunks of several messages between single messages."""
    made: list[bytes | float] = []
    chunks: dict[int, list[bytes]] = {}
    sequence_id = 0
    for _ in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from(["single", "large", "chunked", "next", "next", "next", "pause"]))
        if kind == "pause":
            made.append(draw(st.sampled_from([0.1, 1.5, 2.5])))
        elif kind == "next" and chunks:
            one = draw(st.sampled_from(sorted(chunks)))
            made.append(chunks[one].pop(0))
            if not chunks[one]:
                del chunks[one]
        elif kind == "chunked":
            count, size = draw(st.integers(2, 4)), draw(st.sampled_from([10, 60, 150]))
            chunks[sequence_id] = [
                chunk(each, count, bytes(size), count * size, sequence_id, publish_time=NOW)
                for each in range(count)
            ]
            sequence_id += 1
        else:
            size = LIMIT + 1 if kind == "large" else 5
            fields = {"publish_time": NOW}
            made.append(send(sequence_id, bytes(size), 0, None, **fields))
            sequence_id += 1
    return made


def answers(wire: Wire, known: list[int]) -> None:
    """Have the broker answer all that it got; adds the sequence ids that the client was answered."""
    for each in wire.sent_up():
        if parse(each).HasField("send"):
            wire.broker_sends(receipt(parse(each).send.sequence_id))
    for answer in wire.answered():
        if answer.HasField("send_receipt"):
            known.append(answer.send_receipt.sequence_id)
        elif answer.HasField("send_error"):
            known.append(answer.send_error.sequence_id)


@settings(deadline=None, max_examples=60)
@given(histories(), st.booleans(), st.sampled_from([500, 100_000]))
def test_each_message_has_one_response_in_order(
    history: list[bytes | float], prompt: bool, room: int
) -> None:
    bench = Bench(fixed_delivery_delay=300, max_message_size=LIMIT)
    wire = opened_at(bench, version=JAVA, max_hold="2s", chunk_buffer=room)
    known: list[int] = []
    for step in history:
        if isinstance(step, bytes):
            wire.client_sends(step)
        else:
            wire.wait(step)
        if prompt:
            answers(wire, known)
    wire.wait(10)
    answers(wire, known)
    assert known == [parse(step).send.sequence_id for step in history if isinstance(step, bytes)]
    assert bench.budget.used == 0
    wire.client_sends(frame("close_producer", producer_id=0, request_id=7))
    wire.close()
    assert bench.budget.used == 0


@settings(deadline=None, max_examples=40)
@given(histories())
def test_forwarded_chunks_form_whole_messages_with_one_delivery_time(history: list[bytes | float]) -> None:
    wire = opened_at(Bench(fixed_delivery_delay=300), max_hold="2s")
    for step in history:
        if isinstance(step, bytes):
            wire.client_sends(step)
        else:
            wire.wait(step)
    wire.wait(10)
    found: dict[str, list[tuple[int, int, int]]] = {}
    for each in wire.sent_up():
        told = metadata(each)
        if told.num_chunks_from_msg > 1:
            place = (told.chunk_id, told.num_chunks_from_msg, told.deliver_at_time)
            found.setdefault(told.uuid, []).append(place)
    for places in found.values():
        assert [number for number, _, _ in places] == list(range(places[0][1]))
        assert len({due for _, _, due in places}) == 1
