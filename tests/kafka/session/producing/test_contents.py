"""Policies that read messages, and rewrite their headers, in Produce requests."""

import pytest
from tests.kafka.codec.packing import FORMS, packed_batch
from tests.kafka.codec.test_message_reading import Record, built
from tests.kafka.session.messages import outcome, produce, produced, topics_of
from tests.kafka.session.producing.test_inspecting import inspect, loaded
from tests.kafka.session.wire import SECOND, Bench, Wire

from sluicegate.engine.check import Check
from sluicegate.hooks import hookimpl
from sluicegate.model import Message, OperationKind, Part, PolicyValue
from sluicegate_kafka.codec.records import BATCH_OVERHEAD
from sluicegate_kafka.session.producing import contents

__all__ = ["loaded"]

TRACED: Record = (b"k", b"v", [("trace", b"1")])
BARE: Record = (None, b"v", [])


def reading_wire(**policies: PolicyValue) -> Wire:
    return Wire(Bench(**policies))


def send(wire: Wire, batch: bytes, topic: str = "t") -> list[bytes]:
    """What is forwarded of a request with one batch."""
    wire.client_sends(produce({topic: batch}))
    inspect(wire)
    return wire.forwarded()


@pytest.mark.parametrize("form", [None, *FORMS])
def test_a_missing_header_is_found_in_each_form_of_a_batch(form: str | None) -> None:
    wire = reading_wire(required_headers="trace")
    whole, lacking = built([TRACED] * 5), built([TRACED] * 4 + [BARE])
    if form is not None:
        whole, lacking = packed_batch(whole, form), packed_batch(lacking, form)

    (forwarded,) = send(wire, whole)
    assert whole in forwarded
    wire.broker_sends(produced("t"))
    wire.answered()
    assert send(wire, lacking) == []
    ((code, text),) = outcome(wire.answered()[0]).values()

    assert code == 44
    assert text is not None
    assert text.startswith("A message for topic t has no header trace.")


def test_requests_like_the_one_before_are_read_as_well() -> None:
    wire = reading_wire(required_headers="trace")
    repeat(wire)
    wire.client_sends(produce({"t": built([BARE])}, correlation_id=4))
    assert wire.forwarded() == []
    assert wire.session.producing._attached["t", -1].operation.contents == ()


def repeat(wire: Wire) -> None:
    """Send requests that differ in nothing but a batch, until those like them take the fast path."""
    for number in range(4):
        wire.client_sends(produce({"t": built([TRACED])}, correlation_id=number))
        assert len(wire.forwarded()) == 1
        wire.broker_sends(produced("t", correlation_id=number))
        wire.answered()
    assert wire.session.producing.repeated is not None


def test_a_request_like_the_one_before_is_rewritten() -> None:
    wire = reading_wire(remove_headers="x-*")
    repeat(wire)
    wire.client_sends(produce({"t": built([(b"k", b"v", [("x-secret", b"1")])])}, correlation_id=4))
    (forwarded,) = wire.forwarded()
    assert b"x-secret" not in forwarded


def test_many_requests_like_the_one_before_are_read_in_slices() -> None:
    wire = reading_wire(required_headers="trace")
    repeat(wire)
    batch = built([TRACED] * 40)
    wire.client_sends(*(produce({"t": batch}, acks=0, correlation_id=number) for number in range(4, 14)))
    assert wire.take_turns() >= 3
    assert len(wire.forwarded()) == 10


@pytest.mark.parametrize("count", [1, 50, 51])
@pytest.mark.parametrize("form", [None, "gzip"])
def test_few_and_many_messages_are_read_alike(count: int, form: str | None) -> None:
    wire = reading_wire(required_headers="trace", max_publish_rate=1_000)
    send(wire, built([TRACED]))  # its gate is compiled from here on
    wire.broker_sends(produced("t"))
    wire.answered()
    whole, lacking = built([TRACED] * count), built([TRACED] * (count - 1) + [BARE])
    if form is not None:
        whole, lacking = packed_batch(whole, form), packed_batch(lacking, form)
    assert len(send(wire, whole)) == 1
    wire.broker_sends(produced("t"))
    wire.answered()
    assert send(wire, lacking) == []
    ((code, _),) = outcome(wire.answered()[0]).values()
    assert code == 44
    assert wire.shared.budget.used == 0


def test_a_few_messages_that_are_damaged_are_refused() -> None:
    wire = reading_wire(required_headers="trace")
    send(wire, built([TRACED]))
    wire.broker_sends(produced("t"))
    wire.answered()
    damaged = bytearray(built([TRACED] * 2))
    damaged[BATCH_OVERHEAD] = 2
    assert send(wire, bytes(damaged)) == []
    ((code, text),) = outcome(wire.answered()[0]).values()
    assert code == 44
    assert text is not None
    assert text.startswith("Messages for topic t cannot be read: a record of 1 bytes")


def test_one_topic_is_refused_and_the_other_passes() -> None:
    wire = reading_wire(required_headers="trace")
    wire.client_sends(produce({"a": built([BARE]), "b": built([TRACED])}))

    (forwarded,) = wire.forwarded()
    assert topics_of(forwarded) == ["b"]
    wire.broker_sends(produced("b"))
    codes = {topic: code for (topic, _), (code, _) in outcome(wire.answered()[0]).items()}
    assert codes == {"a": 44, "b": 0}


@pytest.mark.parametrize("form", [None, *FORMS])
def test_headers_are_removed_before_the_broker_stores_them(form: str | None) -> None:
    wire = reading_wire(required_headers="trace", remove_headers="x-*")
    batch = built([TRACED, (b"k", b"v", [("x-secret", b"1"), ("trace", b"2")])])
    (forwarded,) = send(wire, batch if form is None else packed_batch(batch, form))

    assert topics_of(forwarded) == ["t"]
    assert b"x-secret" not in forwarded
    if form is None:
        assert b"trace" in forwarded
    wire.broker_sends(produced("t"))
    assert outcome(wire.answered()[0]) == {("t", 0): (0, None)}


def test_a_producer_whose_first_batch_is_rewritten_stays_attached() -> None:
    bench = Bench(remove_headers="x-*", max_producers_per_topic=1)
    wire = Wire(bench)
    other = Wire(bench, wire.shared, "10.0.0.2:5000")
    secret = built([(None, b"v", [("x-secret", b"1")])])

    assert len(send(wire, secret)) == 1
    assert send(other, secret) == []


def test_a_batch_without_such_headers_is_forwarded_as_it_is() -> None:
    wire = reading_wire(remove_headers="x-*")
    batch = built([TRACED])

    (forwarded,) = send(wire, batch)
    assert batch in forwarded


def test_what_is_held_is_rewritten_when_it_goes_on() -> None:
    wire = reading_wire(remove_headers="x-*", max_publish_rate=1)
    send(wire, built([TRACED]))
    held = send(wire, built([(None, b"v", [("x-secret", b"1")])]))
    assert held == []
    wire.wait(2 * SECOND)
    (forwarded,) = wire.forwarded()
    assert b"x-secret" not in forwarded


def test_a_topic_that_nobody_reads_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object) -> None:
        raise AssertionError("it was parsed")

    monkeypatch.setattr(contents, "read_messages", never)
    wire = reading_wire(max_publish_rate=1_000)
    assert len(send(wire, built([TRACED]))) == 1


def test_more_messages_than_are_read_at_most_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_MESSAGES", 4)
    wire = reading_wire(required_headers="trace")
    assert send(wire, built([TRACED] * 5)) == []
    ((code, text),) = outcome(wire.answered()[0]).values()
    assert code == 44
    assert text is not None
    assert text.startswith(
        "Messages for topic t cannot be read: 5 in one request, of which at most 4 are read."
    )


def test_a_batch_that_cannot_be_unpacked_is_refused() -> None:
    wire = reading_wire(required_headers="trace")
    damaged = packed_batch(built([TRACED]), "zstd")[:-3]
    damaged = damaged[:8] + (len(damaged) - 12).to_bytes(4, "big") + damaged[12:]
    assert send(wire, damaged) == []
    ((code, _),) = outcome(wire.answered()[0]).values()
    assert code == 44


def test_memory_of_messages_is_given_back() -> None:
    wire = reading_wire(required_headers="trace", remove_headers="trace")
    send(wire, packed_batch(built([TRACED] * 100), "gzip"))
    assert wire.shared.budget.used == 0


@pytest.mark.parametrize("part", list(Part))
def test_only_what_is_asked_for_is_kept(part: Part) -> None:
    seen: list[Message] = []

    class Seeing:
        @hookimpl
        def sluicegate_policy_checks(self) -> list[Check]:
            return [
                Check(
                    "seeing", (OperationKind.PUBLISH,), lambda op, _: seen.extend(op.contents), reads={part}
                )
            ]

    wire = Wire(Bench({}, [Seeing()]))
    send(wire, built([(b"k", b"\0\0\0\0\x11v", [("a", b"1")])]))
    (message,) = seen
    kept = {
        Part.HEADERS: bool(message.headers),
        Part.KEY: message.key is not None,
        Part.SCHEMA: bool(message.schema),
        Part.VALUE: bool(message.value),
    }
    assert kept == {each: each is part for each in Part}
