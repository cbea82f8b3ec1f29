"""Delivery times: a topic's own in place of the producer's, and a bound on what producers ask for."""

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.session.messages import JAVA, parse, producer, producer_success, receipt, send
from tests.pulsar.session.wire import START, Bench, Wire

from sluicegate.model import PolicyValue
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import has_valid_checksum, split

TOPIC = "persistent://public/default/orders"
NOW = 1_800_000_000_000
"""The wall clock when a test starts, in ms."""
OVERRIDDEN = "pulsar_broker_topic_messages_fixed_delay_overridden"
REJECTED = "pulsar_broker_topic_messages_delayed_rejected"


def opened(bench: Bench, **options: object) -> Wire:
    """A connection with one producer, at a known time."""
    wire = Wire(bench, **options)  # type: ignore[arg-type]
    bench.wall_clock.offset_ns = NOW * 1_000_000 - START
    wire.client_sends(producer())
    wire.broker_sends(producer_success())
    wire.sent_up()
    wire.sent_down()
    return wire


def metadata(frame: bytes) -> pb.MessageMetadata:
    """A frame's metadata; its checksum must hold."""
    parts = split(frame, 0, len(frame))
    assert has_valid_checksum(frame, parts)
    return pb.MessageMetadata.FromString(frame[parts.metadata : parts.payload])


def due(wire: Wire) -> list[int]:
    """When each message is to be delivered that reached the broker since the last call."""
    return [metadata(frame).deliver_at_time for frame in wire.sent_up()]


@pytest.mark.seed("S2-001", "S2-003", "S2-006", "S2-008")
class TestFixedDelay:
    """Every message of the topic is delivered so much later, whatever its producer wants."""

    @pytest.mark.parametrize(
        "frame",
        [
            send(0, publish_time=NOW - 100),
            send(0, publish_time=NOW - 100, deliver_at_time=NOW + 1),
            send(0, publish_time=NOW - 100, deliver_at_time=-5),
        ],
    )
    def test_the_delay_counts_from_the_publish_time(self, frame: bytes) -> None:
        wire = opened(Bench(fixed_delivery_delay=1_500))
        wire.client_sends(frame)
        assert due(wire) == [NOW + 1_400]

    def test_a_delay_changes_only_the_delivery_time(self) -> None:
        wire = opened(Bench(fixed_delivery_delay=1_500))
        fields = {
            "publish_time": NOW,
            "properties": [{"key": "a", "value": "b"}],
            "partition_key": "k",
            "schema_version": b"\0\1",
            "ordering_key": b"o",
            "event_time": 5,
            "txnid_most_bits": 1,
        }
        before = send(0, b"payload", command={"txnid_most_bits": 1, "txnid_least_bits": 2}, **fields)  # type: ignore[arg-type]
        wire.client_sends(before)
        (after,) = wire.sent_up()
        expected = metadata(before)
        expected.deliver_at_time = NOW + 1_500
        assert metadata(after) == expected
        assert parse(after) == parse(before)
        assert after.endswith(b"payload")

    @pytest.mark.seed("S2-022", "S2-023")
    @pytest.mark.parametrize(
        "frame",
        [
            send(0, publish_time=NOW, num_messages_in_batch=3, command={"num_messages": 3}),
            send(0, publish_time=NOW, compression=1, uncompressed_size=100),
            send(0, publish_time=NOW, encryption_keys=[{"key": "k", "value": b"v"}]),
            send(0, bytes(100_000), publish_time=NOW),
        ],
        ids=["batch", "compressed", "encrypted", "large"],
    )
    def test_messages_of_any_kind_are_delayed(self, frame: bytes) -> None:
        wire = opened(Bench(fixed_delivery_delay=1_500))
        wire.client_sends(frame)
        assert due(wire) == [NOW + 1_500]

    def test_the_delay_may_count_from_the_receive_time(self) -> None:
        wire = opened(Bench(fixed_delivery_delay=1_500, delay_clock="receive_time"))
        wire.client_sends(_send(0, publish_time=NOW - 100))
        assert due(wire) == [NOW + 1_500]

    @pytest.mark.parametrize(
        ("behind_ms", "counts_from"),
        [(5_000, NOW - 5_000), (5_001, NOW), (3_600_000, NOW), (NOW, NOW)],
    )
    def test_a_backdated_publish_time_is_ignored(self, behind_ms: int, counts_from: int) -> None:
        wire = opened(Bench(fixed_delivery_delay=1_500))
        wire.client_sends(_send(0, publish_time=NOW - behind_ms))
        assert due(wire) == [counts_from + 1_500]

    def test_waiting_for_a_rate_adds_no_delay(self) -> None:
        bench = Bench(fixed_delivery_delay=1_500, delay_clock="receive_time", max_publish_rate=1)
        wire = opened(bench)
        wire.client_sends(_send(0, publish_time=NOW), _send(1, publish_time=NOW))
        wire.wait(2)
        assert due(wire) == [NOW + 1_500, NOW + 1_500]

    def test_a_tick_is_added_for_brokers_that_are_not_strict(self) -> None:
        wire = opened(Bench(fixed_delivery_delay=1_500))
        wire.shared.added_delay_ms = 1_000
        wire.client_sends(_send(0, publish_time=NOW))
        assert due(wire) == [NOW + 2_500]

    @pytest.mark.parametrize(("added_ms", "late_ms"), [(1_000, 5_000), (6_000, 6_000), (0, 0)])
    def test_a_topic_can_have_a_longer_tick(self, added_ms: int, late_ms: int) -> None:
        wire = opened(Bench(fixed_delivery_delay=1_500, delayed_delivery_tick_time=5_000))
        wire.shared.added_delay_ms = added_ms
        wire.client_sends(_send(0, publish_time=NOW))
        assert due(wire) == [NOW + 1_500 + late_ms]

    @pytest.mark.seed("S2-007")
    def test_0_is_unset(self) -> None:
        wire = opened(Bench(fixed_delivery_delay=0))
        wire.client_sends(_send(0, publish_time=NOW, deliver_at_time=NOW + 5))
        assert due(wire) == [NOW + 5]

    @pytest.mark.seed("S2-016")
    def test_overridden_delivery_times_are_counted(self) -> None:
        bench = Bench(fixed_delivery_delay=1_500)
        wire = opened(bench)
        wire.client_sends(_send(0, publish_time=NOW), _send(1, publish_time=NOW, deliver_at_time=NOW + 1))
        assert bench.gates.states[TOPIC].named_counts == {OVERRIDDEN: 1}

    @pytest.mark.seed("S2-025")
    @pytest.mark.parametrize("ahead_ms", [3_600_001, 2**64 - 1 - NOW])
    def test_an_impossible_publish_time_is_refused(self, ahead_ms: int) -> None:
        wire = opened(Bench(fixed_delivery_delay=1_500), version=JAVA)
        wire.client_sends(_send(0, publish_time=NOW + ahead_ms))
        (answer,) = wire.answered()
        assert answer.send_error.error == pb.NOT_ALLOWED_ERROR
        assert answer.send_error.message.startswith("Message time stamp is too far in the future")
        assert wire.sent_up() == []

    def test_damage_is_not_repaired(self) -> None:
        wire = opened(Bench(fixed_delivery_delay=1_500), version=JAVA)
        damaged = bytearray(_send(1, publish_time=NOW))
        damaged[-1] ^= 1
        wire.client_sends(_send(0, publish_time=NOW), bytes(damaged), _send(2, publish_time=NOW))
        assert [parse(frame).send.sequence_id for frame in wire.sent_up()] == [0, 2]
        wire.broker_sends(receipt(0), receipt(2))
        first, error, _ = wire.answered()
        assert first.send_receipt.sequence_id == 0
        assert (error.send_error.sequence_id, error.send_error.error) == (1, pb.CHECKSUM_ERROR)
        assert error.send_error.message == "Checksum failed on the broker"
        assert wire.shared.counts["publish_checksum_failed"] == 1

    def test_a_frame_without_a_checksum_gets_none(self) -> None:
        frame = _send(0, publish_time=NOW)
        parts = split(frame, 0, len(frame))
        bare = frame[: parts.checksum - 2] + frame[parts.checksum + 4 :]
        bare = (len(bare) - 4).to_bytes(4, "big") + bare[4:]
        wire = opened(Bench(fixed_delivery_delay=1_500))
        wire.client_sends(bare)
        (after,) = wire.sent_up()
        assert split(after, 0, len(after)).checksum == -1
        assert metadata(after).deliver_at_time == NOW + 1_500

    def test_malformed_metadata_ends_the_connection(self) -> None:
        frame = bytearray(_send(0, publish_time=NOW))
        parts = split(bytes(frame), 0, len(frame))
        frame[parts.metadata : parts.payload] = b"\xff" * (parts.payload - parts.metadata)
        frame[parts.checksum : parts.checksum + 4] = google_crc32c.value(
            bytes(frame[parts.checksum + 4 :])
        ).to_bytes(4, "big")
        wire = opened(Bench(fixed_delivery_delay=1_500))
        wire.client_sends(bytes(frame))
        assert wire.closed is not None
        assert wire.closed.counter == "malformed_frame"

    def test_messages_that_pass_unread_may_be_damaged(self) -> None:
        """The broker looks at every checksum itself, and answers as it does."""
        wire = opened(Bench())
        damaged = bytearray(_send(1, publish_time=NOW))
        damaged[-1] ^= 1
        wire.client_sends(bytes(damaged))
        assert wire.sent_up() == [bytes(damaged)]


@pytest.mark.seed("S2-004", "S2-010", "S2-027")
class TestMaxDelay:
    """A producer may ask for so much and no more."""

    def test_a_delay_above_the_maximum_is_refused(self) -> None:
        bench = Bench(max_delivery_delay=2_000)
        wire = opened(bench, version=JAVA)
        frames = [_send(number, publish_time=NOW, deliver_at_time=NOW + 2_000 + number) for number in (0, 1)]
        wire.client_sends(*frames)
        assert wire.sent_up() == frames[:1]
        wire.broker_sends(receipt(0))
        _, answer = wire.answered()
        assert answer.send_error.message == (
            "Exceeds max allowed delivery delay of 2000 milliseconds [sluicegate 1]"
        )
        assert answer.send_error.error == pb.NOT_ALLOWED_ERROR

    @pytest.mark.seed("S2-015")
    def test_refused_messages_are_counted(self) -> None:
        bench = Bench(max_delivery_delay=2_000)
        wire = opened(bench)
        wire.client_sends(
            *[_send(number, publish_time=NOW, deliver_at_time=NOW + 9_000) for number in (0, 1)]
        )
        assert bench.gates.states[TOPIC].named_counts == {REJECTED: 2}

    @pytest.mark.seed("S2-025")
    @pytest.mark.parametrize("asked", [0, 1, NOW - 1, -1, -(2**63)])
    def test_a_delivery_time_in_the_past_passes(self, asked: int) -> None:
        wire = opened(Bench(max_delivery_delay=2_000))
        frame = _send(0, publish_time=NOW, deliver_at_time=asked)
        wire.client_sends(frame)
        assert wire.sent_up() == [frame]

    @pytest.mark.seed("S2-025")
    def test_an_infinite_delay_is_refused(self) -> None:
        wire = opened(Bench(max_delivery_delay=2_000))
        wire.client_sends(_send(0, publish_time=NOW, deliver_at_time=2**63 - 1))
        assert wire.sent_up() == []

    def test_a_message_without_delay_passes(self) -> None:
        wire = opened(Bench(max_delivery_delay=2_000))
        wire.client_sends(_send(0, publish_time=NOW))
        assert wire.sent_up() == [_send(0, publish_time=NOW)]

    @pytest.mark.seed("S2-003")
    def test_a_fixed_delay_overrides_the_maximum(self) -> None:
        wire = opened(Bench(fixed_delivery_delay=5_000, max_delivery_delay=2_000))
        wire.client_sends(_send(0, publish_time=NOW, deliver_at_time=NOW + 60_000))
        assert due(wire) == [NOW + 5_000]


@pytest.mark.seed("S2-005")
@pytest.mark.parametrize("policies", [{}, {"max_publish_rate": 1_000}])
def test_without_policies_the_producer_sets_the_delay(policies: dict[str, PolicyValue]) -> None:
    wire = opened(Bench(policies))
    frame = _send(0, publish_time=NOW, deliver_at_time=2**62)
    wire.client_sends(frame)
    assert wire.sent_up() == [frame]


@settings(deadline=None)
@given(
    publish_time=st.integers(0, 2**64 - 1),
    deliver_at=st.none() | st.integers(-(2**63), 2**63 - 1),
    payload=st.binary(max_size=40),
)
def test_rewritten_messages_are_never_early_or_damaged(
    publish_time: int, deliver_at: int | None, payload: bytes
) -> None:
    asked: dict[str, int] = {} if deliver_at is None else {"deliver_at_time": deliver_at}
    wire = opened(Bench(fixed_delivery_delay=1_500))
    wire.client_sends(_send(0, payload, publish_time=publish_time, **asked))
    sent = wire.sent_up()
    if publish_time > NOW + 3_600_000:
        assert sent == []
        assert len(wire.sent_down()) == 1
    else:
        start = publish_time if publish_time >= NOW - 5_000 else NOW
        assert metadata(sent[0]).deliver_at_time == start + 1_500
        assert sent[0].endswith(payload)


def _send(sequence_id: int, payload: bytes = b"hello", **metadata: int) -> bytes:
    return send(sequence_id, payload, 0, None, **metadata)
