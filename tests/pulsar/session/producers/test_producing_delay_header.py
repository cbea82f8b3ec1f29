"""Delivery times that messages say in a header."""

from typing import Any

import pytest
from tests.pulsar.codec.test_contents import Batch
from tests.pulsar.session.messages import JAVA, frame, parse, receipt, send
from tests.pulsar.session.producers.test_producing_contents import batch, loaded, repack, texts
from tests.pulsar.session.producers.test_producing_delay import NOW, REJECTED, TOPIC, metadata, opened
from tests.pulsar.session.wire import Bench, Wire

from sluicegate.broker import Ask
from sluicegate.model import PolicyValue
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.session.producers.repacking import Repacking

__all__ = ["loaded"]
DAY = 86_400_000


def with_header(value: str, sequence_id: int = 0, **fields: Any) -> bytes:
    properties = [{"key": "when", "value": value}]
    return send(sequence_id, properties=properties, **{"publish_time": NOW - 100, **fields})


def due(wire: Wire) -> list[int | None]:
    """When each message is to be delivered that reached the broker since the last call."""
    found = [metadata(each) for each in wire.sent_up()]
    return [each.deliver_at_time if each.HasField("deliver_at_time") else None for each in found]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (str(NOW + 5_000), NOW + 5_000),
        ("100000000000", 100_000_000_000),
        ("99999999999", NOW - 100 + 99_999_999_999),
        ("1500", NOW + 1_400),
        ("0", NOW - 100),
        ("1500ms", NOW + 1_400),
        ("30s", NOW + 29_900),
        ("5m", NOW + 299_900),
        ("5min", NOW + 299_900),
        ("2h", NOW - 100 + 7_200_000),
        ("7d", NOW - 100 + 7 * DAY),
    ],
)
def test_a_header_is_a_time_or_a_delay(value: str, expected: int) -> None:
    wire = opened(Bench(delay_header="when"))
    wire.client_sends(with_header(value), with_header(value, 1, deliver_at_time=NOW + 9))
    assert due(wire) == [expected, expected]


def test_only_the_delivery_time_is_changed() -> None:
    wire = opened(Bench(delay_header="when"))
    before = with_header("30s", partition_key="k")
    wire.client_sends(before)
    (after,) = wire.sent_up()
    expected = metadata(before)
    expected.deliver_at_time = NOW + 29_900
    assert metadata(after) == expected
    assert parse(after) == parse(before)


def test_a_message_without_the_header_passes_as_it_is() -> None:
    wire = opened(Bench(delay_header="when"))
    frames = [send(0, publish_time=NOW), send(1, publish_time=NOW, deliver_at_time=NOW + 5)]
    wire.client_sends(*frames)
    assert wire.sent_up() == frames


@pytest.mark.parametrize(
    "value", ["", "soon", "-1", "30 s", "1.5s", "30S", "30sec", "1e3", "9" * 15 + "d", "9" * 16, "100001d"]
)
def test_a_malformed_header_is_refused(value: str) -> None:
    wire = opened(Bench(delay_header="when"), version=JAVA)
    wire.client_sends(with_header(value))
    assert wire.sent_up() == []
    (text,) = texts(wire)
    assert text.startswith(
        f"A message for topic {TOPIC} has a header when by which it cannot be delivered: {value!r} is "
        "neither milliseconds since 1970 nor a delay such as 30s."
    )


def test_a_long_malformed_header_is_not_repeated_in_full() -> None:
    wire = opened(Bench(delay_header="when"), version=JAVA)
    wire.client_sends(with_header("x" * 1_000))
    (text,) = texts(wire)
    assert "x" * 40 in text
    assert "x" * 41 not in text


def test_the_maximum_holds_for_headers() -> None:
    bench = Bench(delay_header="when", max_delivery_delay=60_000)
    wire = opened(bench, version=JAVA)
    late = str(NOW + 60_001)
    wire.client_sends(
        with_header("60s"),
        with_header("61s", 1),
        with_header(late, 2),
        with_header("1s", 3, deliver_at_time=2**60),
    )
    assert due(wire) == [NOW + 59_900, NOW + 900]
    wire.broker_sends(receipt(0))
    assert [text.partition(" [")[0] for text in texts(wire)] == [
        "Exceeds max allowed delivery delay of 60000 milliseconds"
    ] * 2
    assert bench.gates.states[TOPIC].named_counts == {REJECTED: 2}


@pytest.mark.parametrize(
    "policies",
    [
        {"delay_header": ""},
        {"delay_header": "when", "mode.delay_header": "observe"},
        {"delay_header": "other"},
    ],
)
def test_without_the_policy_a_header_says_nothing(policies: dict[str, PolicyValue]) -> None:
    wire = opened(Bench(policies))
    wire.client_sends(with_header("30s"))
    assert due(wire) == [None]


def test_a_fixed_delay_overrides_headers() -> None:
    wire = opened(Bench(delay_header="when", fixed_delivery_delay=5_000))
    wire.client_sends(with_header("30s"), with_header("soon", 1))
    assert due(wire) == [NOW + 4_900] * 2


def test_a_delay_counts_from_a_credible_publish_time() -> None:
    wire = opened(Bench(delay_header="when"))
    wire.client_sends(with_header("30s", publish_time=1), with_header("30s", 1, publish_time=NOW + 2 * DAY))
    assert due(wire) == [NOW + 30_000] * 2


def test_a_tick_is_added_for_brokers_that_are_not_strict() -> None:
    wire = opened(Bench(delay_header="when"))
    wire.shared.added_delay_ms = 1_000
    wire.client_sends(with_header(str(NOW + 5_000)))
    assert due(wire) == [NOW + 6_000]


@pytest.mark.parametrize("compression", [0, pb.MessageMetadata.ZLIB])
def test_a_batch_whose_messages_agree_is_delayed_as_a_whole(compression: int) -> None:
    wire = opened(Bench(delay_header="when"))
    messages: Batch = [([("when", "30s")], None, b"v"), ([("a", "1"), ("when", "30s")], None, b"w")]
    wire.client_sends(batch(0, messages, compression, publish_time=NOW))
    assert due(wire) == [NOW + 30_000]


@pytest.mark.parametrize("other", [[("when", "31s")], []])
def test_a_batch_whose_messages_differ_is_refused(other: list[tuple[str, str]]) -> None:
    wire = opened(Bench(delay_header="when"), version=JAVA)
    wire.client_sends(batch(0, [([("when", "30s")], None, b"v"), (other, None, b"w")], publish_time=NOW))
    assert wire.sent_up() == []
    (text,) = texts(wire)
    assert "the messages of a batch differ in it, so disable batching in the producer" in text


def test_of_a_header_that_is_there_twice_the_last_counts() -> None:
    """As for consumers."""
    wire = opened(Bench(delay_header="when"))
    properties = [{"key": "when", "value": "soon"}, {"key": "when", "value": "30s"}]
    wire.client_sends(send(0, publish_time=NOW, properties=properties))
    assert due(wire) == [NOW + 30_000]


def test_the_header_can_be_removed_after_it_was_read() -> None:
    wire = opened(Bench(delay_header="when", remove_headers="when, x"))
    wire.client_sends(with_header("30s"))
    (after,) = wire.sent_up()
    assert metadata(after).deliver_at_time == NOW + 29_900
    assert not metadata(after).properties


def test_a_large_batch_is_delayed_after_it_was_read_in_slices() -> None:
    wire = opened(Bench(delay_header="when", remove_headers="when"))
    wire.client_sends(
        batch(0, [([("when", "30s")], None, b"")] * 1_000, pb.MessageMetadata.LZ4, publish_time=NOW)
    )
    repack(wire)
    assert due(wire) == [NOW + 30_000]


def test_waiting_for_a_rate_adds_no_delay() -> None:
    wire = opened(Bench(delay_header="when", max_publish_rate=1))
    wire.client_sends(with_header("30s"), with_header("30s", 1))
    wire.wait(3)
    assert due(wire) == [NOW + 29_900] * 2


def test_chunks_get_one_delivery_time() -> None:
    wire = opened(Bench(delay_header="when"))
    piece: dict[str, Any] = {"num_chunks_from_msg": 2, "uuid": "u", "total_chunk_msg_size": 10}
    for at in (0, 1):
        wire.client_sends(with_header("30s", 0, chunk_id=at, command={"is_chunk": True}, **piece))
    assert due(wire) == [NOW + 29_900] * 2


def test_a_delay_that_the_broker_refuses_is_explained() -> None:
    """Clients would send the message again for ever."""
    wire = opened(Bench(delay_header="when"), version=JAVA)
    wire.client_sends(with_header("30s"))
    text = "Exceeds max allowed delivery delay of 1000 milliseconds"
    wire.broker_sends(
        frame("send_error", producer_id=0, sequence_id=0, error=pb.NOT_ALLOWED_ERROR, message=text)
    )
    assert texts(wire) == [f"{text}; the gateway's delay_header is when"]
    assert wire.shared.counts["fixed_delay_refused"] == 1


def test_a_batch_goes_on_as_decided_if_policies_change_while_it_is_packed() -> None:
    bench = Bench(delay_header="when", remove_headers="when")
    wire = opened(bench)
    large: Batch = [([("when", "30s")], None, b"")] * 300
    frame = batch(0, [*large, ([("when", "30s")], None, bytes(100_000))], pb.MessageMetadata.LZ4)
    wire.client_sends(frame)
    for _ in range(2):  # it is unpacked to be read, and to be changed; what follows is its packing
        wire.take_turns()
        (asked,) = [each for each in wire.commands if isinstance(each, Ask)]
        wire.commands.remove(asked)
        assert isinstance(asked.question, Repacking)
        asked.question.run()
        wire.front_answers(asked.question)
    bench.set()
    wire.client_sends(send(1))
    repack(wire)
    assert due(wire) == [NOW + 30_000, None]
