"""Messages pass unchanged, or are refused so that only they fail."""

import pytest
from google.protobuf.message import Message
from tests.pulsar.session.messages import (
    JAVA,
    PYTHON,
    connect,
    connected,
    frame,
    parse,
    producer,
    producer_success,
    receipt,
    send,
)
from tests.pulsar.session.wire import Bench, Wire

from sluicegate.model import Level, PolicyLayer, Setting, Source
from sluicegate_pulsar.codec import pulsar_pb2 as pb

TOPIC = "persistent://public/default/orders"


def opened(bench: Bench, count: int = 1, **options: object) -> Wire:
    """A connection with producers 0, 1, ... on one topic."""
    wire = Wire(bench, **options)  # type: ignore[arg-type]
    for number in range(count):
        wire.client_sends(producer(number, request_id=number))
        wire.broker_sends(producer_success(number, f"p-{number}"))
    wire.sent_up()
    wire.sent_down()
    return wire


def batch(*payloads: bytes) -> bytes:
    """The payload of a batch that is neither compressed nor encrypted."""
    out = b""
    for payload in payloads:
        head: Message = pb.SingleMessageMetadata(payload_size=len(payload))
        raw = head.SerializeToString()
        out += len(raw).to_bytes(4, "big") + raw + payload
    return out


class TestWhatPasses:
    """Frames that no policy has anything against are the same bytes."""

    def test_messages_of_every_kind_pass(self) -> None:
        wire = opened(Bench(max_publish_rate=1_000))
        frames = [
            send(0),
            send(1, batch(b"a", b"b"), command={"num_messages": 2}, num_messages_in_batch=2),
            send(3, b"\x01\x02", compression=1, uncompressed_size=5),
            send(4, b"\x01\x02", encryption_keys=[{"key": "k", "value": b"v"}]),
            send(5, b"ab", command={"is_chunk": True}, num_chunks_from_msg=2, chunk_id=0, uuid="u"),
            send(5, b"cd", command={"is_chunk": True}, num_chunks_from_msg=2, chunk_id=1, uuid="u"),
            send(6, command={"txnid_least_bits": 1, "txnid_most_bits": 2}),
        ]
        wire.client_sends(*frames)
        assert wire.sent_up() == frames

    def test_a_run_of_messages_is_forwarded_as_one_buffer(self) -> None:
        wire = opened(Bench())
        wire.commands.clear()
        wire.client_sends(send(0), send(1), send(2))
        assert len(wire.commands) == 1

    def test_messages_and_bytes_are_counted(self) -> None:
        bench = Bench()
        wire = opened(bench)
        wire.client_sends(send(0, b"x" * 100, num_messages_in_batch=7), send(1, b"y"))
        state = bench.gates.states[TOPIC]
        assert (state.allowed_messages, state.allowed_bytes) == (8, 101)

    def test_a_changed_policy_applies_from_the_next_message(self) -> None:
        bench = Bench()
        wire = opened(bench)
        wire.client_sends(send(0, b"12345"))
        bench.set(max_message_size=4)
        wire.client_sends(send(1, b"12345"))
        assert len(wire.sent_up()) == 1
        wire.broker_sends(receipt(0))
        assert [answer.type for answer in wire.answered()] == [7, 8]


@pytest.mark.seed("S1-050", "S2-027")
class TestRefusals:
    """SEND_ERROR in the broker's place."""

    @pytest.mark.parametrize(
        ("version", "code"),
        [
            (PYTHON, pb.CHECKSUM_ERROR),
            ("Pulsar-CPP-v3.5.1", pb.CHECKSUM_ERROR),
            (JAVA, pb.NOT_ALLOWED_ERROR),
            ("Pulsar Go 0.14.0", pb.NOT_ALLOWED_ERROR),
            ("2.10.4", pb.NOT_ALLOWED_ERROR),
        ],
    )
    def test_the_error_code_fails_only_that_message(self, version: str, code: int) -> None:
        wire = opened(Bench(max_message_size=4), version=version)
        wire.client_sends(send(0, b"12345"), send(1, b"1234"))
        assert wire.sent_up() == [send(1, b"1234")]
        (answer,) = wire.answered()
        refused = answer.send_error
        assert (refused.producer_id, refused.sequence_id, int(refused.error)) == (0, 0, code)
        assert refused.message == "Exceed maximum message size [sluicegate 1]"
        assert wire.closed is None

    def test_a_batch_is_refused_under_its_highest_sequence_id(self) -> None:
        wire = opened(Bench(max_message_size=4), version=JAVA)
        command = {"num_messages": 3, "highest_sequence_id": 12}
        wire.client_sends(send(10, batch(b"12345", b"", b""), command=command, num_messages_in_batch=3))
        assert [answer.send_error.sequence_id for answer in wire.answered()] == [12]

    def test_a_refusal_waits_for_earlier_receipts(self) -> None:
        wire = opened(Bench(max_message_size=4))
        wire.client_sends(send(0), send(1, b"1234"), send(2, b"12345"), send(3, b"1234"), send(4, b"12345"))
        passed = wire.sent_up()
        assert [parse(each).send.sequence_id for each in passed] == [1, 3]
        assert [answer.send_error.sequence_id for answer in wire.answered()] == [0]
        wire.broker_sends(receipt(1))
        told = wire.answered()
        assert [told[0].send_receipt.sequence_id, told[1].send_error.sequence_id] == [1, 2]
        wire.broker_sends(receipt(3))
        told = wire.answered()
        assert [told[0].send_receipt.sequence_id, told[1].send_error.sequence_id] == [3, 4]

    def test_each_producer_has_its_own_order(self) -> None:
        wire = opened(Bench(max_message_size=4), count=2)
        wire.client_sends(send(0, b"1"), send(0, b"12345", producer_id=1))
        (answer,) = wire.answered()
        assert answer.send_error.producer_id == 1

    def test_an_error_of_the_broker_counts_as_a_response(self) -> None:
        wire = opened(Bench(max_message_size=4))
        wire.client_sends(send(0, b"1"), send(1, b"12345"))
        error = frame("send_error", producer_id=0, sequence_id=0, error=9, message="Checksum failed")
        wire.broker_sends(error)
        assert [answer.send_error.sequence_id for answer in wire.answered()] == [0, 1]

    def test_pending_refusals_are_bounded(self) -> None:
        bench = Bench(max_message_size=4)
        wire = opened(bench, publish_queue={"messages": 4})
        wire.client_sends(send(0, b"1"), *[send(number, b"12345") for number in range(1, 9)])
        wire.broker_sends(receipt(0))
        assert [answer.send_error.sequence_id for answer in wire.answered()[1:]] == [1, 2, 3, 4]
        assert (wire.is_paused, bench.budget.used) == (False, 0)
        wire.wait(1)
        assert [answer.type for answer in wire.answered()] == [pb.BaseCommand.CLOSE_PRODUCER]

    def test_a_close_is_answered_after_pending_refusals(self) -> None:
        wire = opened(Bench(max_message_size=4))
        wire.client_sends(
            send(0, b"1"), send(1, b"12345"), frame("close_producer", producer_id=0, request_id=5)
        )
        assert [command.type for command in wire.forwarded()] == [6, 15]
        wire.broker_sends(receipt(0), frame("success", request_id=5))
        assert [answer.type for answer in wire.answered()] == [7, 8, 13]

    def test_nothing_pending_outlives_a_close_by_the_broker(self) -> None:
        bench = Bench(max_message_size=4)
        wire = opened(bench)
        wire.client_sends(send(0, b"1"), send(1, b"12345"))
        wire.broker_sends(frame("close_producer", producer_id=0, request_id=0))
        assert [answer.type for answer in wire.answered()] == [15]
        assert bench.budget.used == 0


@pytest.mark.seed("S1-008", "S1-050")
class TestSizes:
    """`max_message_size` is of one message."""

    def test_a_batch_of_small_messages_may_be_larger(self) -> None:
        wire = opened(Bench(max_message_size=50))
        payload = batch(*[b"x" * 40] * 10)
        frames = [
            send(0, payload, command={"num_messages": 10}, num_messages_in_batch=10),
            send(10, batch(b"x" * 51, b""), command={"num_messages": 2}, num_messages_in_batch=2),
        ]
        wire.client_sends(*frames)
        assert wire.sent_up() == frames[:1]

    @pytest.mark.parametrize(
        "frame",
        [
            send(0, b"x" * 51, num_messages_in_batch=10, compression=1),
            send(0, b"x" * 51, num_messages_in_batch=10, encryption_keys=[{"key": "k", "value": b"v"}]),
        ],
    )
    def test_an_unreadable_batch_counts_whole(self, frame: bytes) -> None:
        wire = opened(Bench(max_message_size=50))
        wire.client_sends(frame)
        assert wire.sent_up() == []

    @pytest.mark.seed("S1-053")
    def test_the_default_limit_is_10_mib(self) -> None:
        wire = opened(Bench(), max_frame_bytes="20MiB")
        wire.client_sends(send(0, bytes(10 * 2**20)), send(1, bytes(10 * 2**20 + 1)))
        assert [command.send.sequence_id for command in wire.forwarded()] == [0]

    def test_a_false_batch_count_ends_the_connection(self) -> None:
        wire = opened(Bench(max_message_size=50))
        wire.client_sends(send(0, b"\x7f" * 51, num_messages_in_batch=2))
        assert wire.closed is not None
        assert wire.closed.counter == "malformed_frame"
        assert wire.sent_up() == []


class TestWhatClientsAreTold:
    """CONNECTED carries the size that holds for all topics."""

    @staticmethod
    def told(bench: Bench, version: str = PYTHON, own: int = 5 * 2**20) -> int:
        """What a client learns of a broker with a limit of its own."""
        wire = Wire(bench, is_open=False)
        wire.client_sends(connect(version))
        wire.broker_sends(connected(own))
        (answer,) = wire.answered()
        return answer.connected.max_message_size

    def test_the_announced_maximum_is_the_limit_of_all_topics(self) -> None:
        assert self.told(Bench(max_message_size=2**20)) == 2**20

    def test_the_announced_maximum_is_the_largest_of_all_limits(self) -> None:
        bench = Bench(max_message_size=2**20)
        bench.set_topic("orders", max_message_size=2 * 2**20)
        assert self.told(bench) == 2 * 2**20
        bench.set_topic("payments", max_message_size=0)
        assert self.told(bench) == 5 * 2**20

    def test_the_limit_of_a_single_topic_is_not_announced(self) -> None:
        bench = Bench()
        bench.set_topic("orders", max_message_size=2**20)
        assert self.told(bench) == 5 * 2**20

    def test_the_announced_maximum_is_at_least_256_kib(self) -> None:
        assert self.told(Bench(max_message_size=100)) == 256 * 1024

    def test_java_receives_no_larger_messages_either(self) -> None:
        assert self.told(Bench(max_message_size=2**20), JAVA) == 5 * 2**20

    def test_observed_limits_are_not_announced(self) -> None:
        bench = Bench({"mode.max_message_size": "observe"}, max_message_size=2**20)
        assert self.told(bench) == 5 * 2**20

    def test_a_limit_whose_roll_out_has_ended_is_announced(self) -> None:
        bench = Bench({"mode.max_message_size": "enforce"}, max_message_size=2**20)
        assert self.told(bench) == 2**20

    def test_a_namespace_limit_is_not_a_limit_of_all_topics(self) -> None:
        bench = Bench()
        settings = {"max_message_size": Setting(2**20, Source.FILE)}
        bench.set_layers(PolicyLayer(Level.NAMESPACE, "public/default", settings))
        assert self.told(bench) == 5 * 2**20
