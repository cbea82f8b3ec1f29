"""Claims of a SEND's command: how many messages it has, and that it is a chunk. The metadata decides."""

from typing import Any

import pytest
from tests.pulsar.session.messages import JAVA, parse, producer, producer_success, send
from tests.pulsar.session.producers.test_producing_messages import TOPIC, opened
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec.frames import split


def chunk(
    number: int, of: int, payload: bytes, total: int, sequence_id: int = 0, uuid: str = "", **more: Any
) -> bytes:
    """A chunk as clients send it."""
    return send(
        sequence_id,
        payload,
        command={"is_chunk": True},
        num_chunks_from_msg=of,
        chunk_id=number,
        uuid=uuid or f"p-{sequence_id}",
        total_chunk_msg_size=total,
        **more,
    )


def passed(wire: Wire) -> list[int]:
    """Sequence ids of what reached the broker since the last call."""
    return [parse(frame).send.sequence_id for frame in wire.sent_up()]


class TestCounts:
    """`num_messages` of the command against `num_messages_in_batch` of the metadata."""

    @pytest.mark.parametrize("claimed", [1, 100, 100_000])
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"compression": 1, "uncompressed_size": 5_000},
            {"encryption_keys": [{"key": "k", "value": b"v"}]},
        ],
        ids=["plain", "compressed", "encrypted"],
    )
    def test_a_rate_counts_by_the_metadata(self, claimed: int, fields: dict[str, Any]) -> None:
        wire = opened(Bench(max_publish_rate=100))
        command = {"num_messages": claimed}
        wire.client_sends(
            *[
                send(number, bytes(600), command=command, num_messages_in_batch=100, **fields)
                for number in range(4)
            ]
        )
        assert passed(wire) == [0]
        wire.wait(1.01)
        assert passed(wire) == [1]

    def test_a_batch_without_a_claimed_count_is_counted(self) -> None:
        bench = Bench(max_publish_rate=1_000)
        opened(bench).client_sends(send(0, bytes(600), num_messages_in_batch=100))
        assert bench.gates.states[TOPIC].allowed_messages == 100

    def test_a_claimed_count_without_a_batch_is_one_message(self) -> None:
        bench = Bench(max_publish_rate=1_000)
        opened(bench).client_sends(send(0, command={"num_messages": 100}))
        assert bench.gates.states[TOPIC].allowed_messages == 1

    @pytest.mark.parametrize("fields", [{}, {"num_chunks_from_msg": 2, "uuid": "u"}], ids=["batch", "chunk"])
    def test_a_count_that_the_payload_cannot_hold_uses_up_no_rate(self, fields: dict[str, Any]) -> None:
        wire = opened(Bench(max_publish_rate=500))
        wire.client_sends(send(0, b"x", num_messages_in_batch=2**31 - 1, **fields))
        assert wire.sent_up() == []
        assert wire.closed is not None
        assert wire.closed.counter == "malformed_frame"
        other = Wire(wire.shared._services, wire.shared)  # type: ignore[arg-type]
        other.client_sends(producer())
        other.broker_sends(producer_success())
        other.sent_up()
        other.client_sends(send(0))
        assert passed(other) == [0]

    def test_damage_is_left_to_the_broker(self) -> None:
        wire = opened(Bench(max_publish_rate=1_000))
        frame = bytearray(send(0, num_messages_in_batch=5))
        parts = split(bytes(frame), 0, len(frame))
        frame[parts.metadata] = 0xFF
        wire.client_sends(bytes(frame))
        assert wire.sent_up() == [bytes(frame)]
        assert wire.closed is None


@pytest.mark.seed("S1-008", "S1-050")
class TestChunks:
    """`max_message_size` is of the whole message, however many chunks it comes in."""

    def test_a_message_up_to_the_limit_passes(self) -> None:
        wire = opened(Bench(max_message_size=100))
        frames = [chunk(number, 4, b"x" * 25, 100) for number in range(4)]
        wire.client_sends(*frames)
        assert wire.sent_up() == frames

    def test_a_message_over_the_limit_is_refused_from_its_first_chunk(self) -> None:
        wire = opened(Bench(max_message_size=100), version=JAVA)
        wire.client_sends(*[chunk(number, 4, b"x" * 26, 104) for number in range(4)], send(1))
        assert passed(wire) == [1]
        *others, last = wire.answered()
        # Java releases the message at each error, so only the last chunk gets one.
        assert [answer.send_receipt.message_id.ledger_id for answer in others] == [2**64 - 1] * 3
        assert last.send_error.sequence_id == 0
        assert last.send_error.message.startswith("Exceed maximum message size")

    def test_a_plain_message_cannot_pose_as_a_chunk(self) -> None:
        wire = opened(Bench(max_message_size=100))
        wire.client_sends(send(0, b"x" * 101, command={"is_chunk": True}))
        assert passed(wire) == []

    @pytest.mark.parametrize(
        "fields", [{"num_chunks_from_msg": 1}, {"num_chunks_from_msg": 2}, {"uuid": "u"}]
    )
    def test_some_chunk_fields_do_not_make_a_chunk(self, fields: dict[str, Any]) -> None:
        wire = opened(Bench(max_message_size=100))
        wire.client_sends(send(0, b"x" * 101, command={"is_chunk": True}, **fields))
        assert passed(wire) == []

    def test_a_command_without_the_chunk_flag_is_no_chunk(self) -> None:
        """Consumers put together what the metadata tells them to."""
        wire = opened(Bench(max_message_size=100))
        fields: dict[str, Any] = {"num_chunks_from_msg": 3, "uuid": "u", "total_chunk_msg_size": 180}
        wire.client_sends(*[send(0, b"x" * 60, chunk_id=number, **fields) for number in range(3)])
        assert passed(wire) == []

    def test_a_false_total_size_is_detected_once_more_arrives(self) -> None:
        wire = opened(Bench(max_message_size=100))
        wire.client_sends(*[chunk(number, 5, b"x" * 40, 90) for number in range(5)])
        assert passed(wire) == [0, 0]

    def test_sizes_of_separate_messages_do_not_add_up(self) -> None:
        wire = opened(Bench(max_message_size=100))
        for sequence_id in range(3):
            wire.client_sends(*[chunk(number, 2, b"x" * 45, 90, sequence_id) for number in range(2)])
        assert passed(wire) == [0, 0, 1, 1, 2, 2]

    def test_sizes_of_a_resent_message_do_not_add_up(self) -> None:
        wire = opened(Bench(max_message_size=100))
        wire.client_sends(chunk(0, 2, b"x" * 45, 90), chunk(0, 2, b"x" * 45, 90), chunk(1, 2, b"x" * 45, 90))
        assert len(wire.sent_up()) == 3

    def test_chunks_that_wait_for_their_rate_count_once(self) -> None:
        wire = opened(Bench(max_message_size=100, max_publish_rate=1))
        wire.client_sends(*[chunk(number, 3, b"x" * 30, 90) for number in range(3)])
        wire.wait(3)
        assert passed(wire) == [0, 0, 0]

    def test_memory_of_offered_versions_is_bounded(self) -> None:
        wire = opened(Bench(max_message_size=100))
        wire.client_sends(*[chunk(0, 2, b"x", 2, number) for number in range(1_000)])
        (known,) = wire.session.producing._live.values()
        assert len(known.chunking.sizes._sums) == 16

    def test_an_observed_limit_passes_chunks(self) -> None:
        """What is only observed passes."""
        wire = opened(Bench({"mode.max_message_size": "observe"}, max_message_size=100))
        wire.client_sends(*[chunk(number, 2, b"x" * 60, 120) for number in range(2)])
        assert passed(wire) == [0, 0]

    def test_a_returning_producer_resumes_within_a_message(self) -> None:
        """Chunks that have their receipts are not sent again."""
        wire = opened(Bench(max_message_size=100))
        wire.client_sends(chunk(0, 2, b"x" * 45, 90))
        again = Wire(wire.shared._services, wire.shared)  # type: ignore[arg-type]
        again.client_sends(producer())
        again.broker_sends(producer_success())
        again.sent_up()
        again.client_sends(chunk(1, 2, b"x" * 45, 90))
        assert passed(again) == [0]
