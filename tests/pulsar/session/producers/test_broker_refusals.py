"""What the broker refuses for the gateway's delivery time fails at the client, alone and in its turn."""

from typing import Any

import pytest
from tests.pulsar.session.messages import JAVA, PYTHON, frame, producer, producer_success, receipt, send
from tests.pulsar.session.producers.test_producing_chunks import chunks
from tests.pulsar.session.producers.test_producing_delay import NOW, TOPIC, opened
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.session.producer_state.rewritten import Rewritten

TOO_LATE = "Exceeds max allowed delivery delay of 5000 milliseconds"
TOO_LARGE = "Exceed maximum message size"
CODES = {JAVA: pb.NOT_ALLOWED_ERROR, PYTHON: pb.CHECKSUM_ERROR}
"""The code by which a client fails only one message."""


def refusal(sequence_id: int, text: str = TOO_LATE) -> bytes:
    return frame(
        "send_error", producer_id=0, sequence_id=sequence_id, error=pb.NOT_ALLOWED_ERROR, message=text
    )


def told(wire: Wire) -> list[tuple[str, int]]:
    """Kind and sequence id of what reached the client since the last call."""
    answers = wire.answered()
    kinds = [_kind(answer) for answer in answers]
    return [(kind, getattr(answer, kind).sequence_id) for kind, answer in zip(kinds, answers, strict=True)]


def reopened(wire: Wire) -> Wire:
    """Another connection on which the same producer is open."""
    again = Wire(wire.shared._services, wire.shared, version=JAVA)  # type: ignore[arg-type]
    again.client_sends(producer())
    again.broker_sends(producer_success())
    again.sent_up(), again.sent_down()
    return again


def _kind(answer: pb.BaseCommand) -> str:
    return "send_error" if answer.HasField("send_error") else "send_receipt"


def sent(wire: Wire, count: int = 3) -> Wire:
    """A connection whose messages have all reached the broker."""
    wire.client_sends(*[send(number, publish_time=NOW) for number in range(count)])
    assert len(wire.sent_up()) == count
    return wire


@pytest.mark.parametrize("version", [JAVA, PYTHON])
@pytest.mark.parametrize(
    ("text", "words", "event"),
    [
        (TOO_LATE, f"{TOO_LATE}; the gateway's fixed_delivery_delay is 9000 milliseconds", "fixed_delay"),
        (
            TOO_LARGE,
            f"{TOO_LARGE}, with the bytes of the delivery time that the gateway adds",
            "added_bytes",
        ),
    ],
)
def test_the_client_gets_the_code_by_which_only_that_message_fails(
    version: str, text: str, words: str, event: str
) -> None:
    wire = sent(opened(Bench(fixed_delivery_delay=9_000), version=version))
    wire.broker_sends(receipt(0), refusal(1, text), receipt(2))
    first, refused, last = wire.answered()
    assert (first.send_receipt.sequence_id, last.send_receipt.sequence_id) == (0, 2)
    error = refused.send_error
    assert (error.sequence_id, error.error, error.message) == (1, CODES[version], words)
    assert wire.shared.counters()[f"{event}_refused"] == 1
    assert wire.shared.reports.take() == [(TOPIC, words)]


def test_a_refusal_ahead_of_earlier_receipts_waits_for_them() -> None:
    """A broker refuses at once, but stores first; clients that get an error out of order reconnect."""
    wire = sent(opened(Bench(fixed_delivery_delay=9_000)), 5)
    wire.broker_sends(refusal(1), refusal(2), refusal(4))
    assert told(wire) == []
    wire.broker_sends(receipt(0))
    assert told(wire) == [("send_receipt", 0), ("send_error", 1), ("send_error", 2)]
    wire.broker_sends(receipt(3))
    assert told(wire) == [("send_receipt", 3), ("send_error", 4)]
    sent(wire, 1)
    wire.broker_sends(receipt(0))
    assert told(wire) == [("send_receipt", 0)]


def test_the_gateways_own_refusals_keep_their_place_among_the_brokers() -> None:
    wire = opened(Bench(fixed_delivery_delay=9_000, max_message_size=50))
    wire.client_sends(*[send(number, bytes(50 + number % 2), publish_time=NOW) for number in range(3)])
    wire.broker_sends(refusal(2))
    assert told(wire) == []
    wire.broker_sends(receipt(0))
    assert told(wire) == [("send_receipt", 0), ("send_error", 1), ("send_error", 2)]


def test_a_batch_is_known_by_its_highest_sequence_id() -> None:
    wire = opened(Bench(fixed_delivery_delay=9_000))
    wire.client_sends(
        send(0, publish_time=NOW), send(1, command={"highest_sequence_id": 5}, publish_time=NOW)
    )
    wire.broker_sends(refusal(5), receipt(0))
    assert told(wire) == [("send_receipt", 0), ("send_error", 5)]


@pytest.mark.parametrize("last", [receipt, refusal])
def test_a_chunked_message_fails_once_whatever_becomes_of_its_last_chunk(last: Any) -> None:
    wire = opened(Bench(fixed_delivery_delay=9_000), version=JAVA)
    wire.client_sends(*chunks(3))
    wire.broker_sends(refusal(0), refusal(0))
    assert told(wire) == [("send_receipt", 0)] * 2
    wire.broker_sends(last(0))
    assert told(wire) == [("send_error", 0)]


def test_other_chunks_of_a_refused_message_fail_on_the_next_connection() -> None:
    """The client has receipts for those before: the broker would store the last one, and acknowledge it."""
    wire = opened(Bench(fixed_delivery_delay=9_000), version=JAVA)
    wire.client_sends(*chunks(3))
    wire.broker_sends(refusal(0), refusal(0))
    wire.session.closed(wire.now)
    again = reopened(wire)
    again.client_sends(chunks(3)[2])
    assert again.sent_up() == []
    assert told(again) == [("send_error", 0)]
    again.client_sends(*chunks(3))
    assert len(again.sent_up()) == 3


@pytest.mark.parametrize(
    ("policies", "text"),
    [({"fixed_delivery_delay": 9_000}, "topic is fenced"), ({"max_publish_rate": 1_000}, TOO_LATE)],
)
def test_other_refusals_pass_as_they_are(policies: dict[str, Any], text: str) -> None:
    wire = sent(opened(Bench(policies)))
    wire.broker_sends(refusal(0, text))
    assert wire.sent_down() == [refusal(0, text)]
    assert wire.shared.reports.take() == []


def test_each_topic_is_reported_once() -> None:
    wire = sent(opened(Bench(fixed_delivery_delay=9_000)))
    wire.broker_sends(refusal(0))
    assert len(wire.shared.reports.take()) == 1
    wire.broker_sends(refusal(1))
    assert wire.shared.reports.take() == []
    assert wire.shared.counters()["fixed_delay_refused"] == 2


def test_nothing_is_kept_of_messages_that_are_answered() -> None:
    rewritten = Rewritten()
    rewritten.messages.extend((number, 10 + number, True, "") for number in range(1, 5))
    assert rewritten.answered(2) == b""
    assert [number for number, _, _, _ in rewritten.messages] == [3, 4]
    assert rewritten.refuse(11, b"", b"") is None
    assert rewritten.refuse(13, b"error", b"") == ""
    assert rewritten.pop_refused(3) == b"error"
    assert rewritten.answered(4) == b""
    assert [*rewritten.messages, *rewritten._answers, *rewritten._refused] == []


def test_what_is_kept_of_one_producer_is_bounded() -> None:
    rewritten = Rewritten()
    rewritten.messages.extend((number, number, True, "") for number in range(20_000))
    assert len(rewritten.messages) == 10_000
    assert rewritten.refuse(5_000, b"error", b"") is None


def test_a_client_that_closes_its_producer_still_gets_the_refusal() -> None:
    wire = sent(opened(Bench(fixed_delivery_delay=9_000), version=JAVA))
    wire.broker_sends(refusal(1))
    wire.client_sends(frame("close_producer", producer_id=0, request_id=77))
    wire.broker_sends(receipt(0), receipt(2), frame("success", request_id=77))
    *answers, success = wire.answered()
    assert [_kind(answer) for answer in answers] == ["send_receipt", "send_error", "send_receipt"]
    assert success.success.request_id == 77


def test_a_message_without_its_first_chunks_fails_though_its_producer_is_closed() -> None:
    wire = opened(Bench(fixed_delivery_delay=9_000), version=JAVA)
    wire.client_sends(*chunks(3))
    wire.broker_sends(refusal(0), refusal(0))
    wire.answered()
    wire.client_sends(frame("close_producer", producer_id=0, request_id=77))
    wire.broker_sends(receipt(0), frame("success", request_id=77))
    assert _kind(wire.answered()[0]) == "send_error"
