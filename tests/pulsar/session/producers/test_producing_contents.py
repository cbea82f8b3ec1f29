"""Policies that read messages, and what changes their properties."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest
from tests.pulsar.codec.test_contents import CODECS, Batch, batch_of
from tests.pulsar.session.messages import (
    JAVA,
    connect,
    connected,
    parse,
    producer,
    producer_success,
    receipt,
    send,
)
from tests.pulsar.session.wire import Bench, Wire

from sluicegate import hookimpl
from sluicegate.broker import Ask
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.state import TopicState
from sluicegate.model import (
    Action,
    Decision,
    EffectivePolicies,
    HeaderChange,
    Message,
    Operation,
    OperationKind,
    Outcome,
    Part,
    Reason,
    TopicName,
)
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.contents import CONTENTS_PER_SLICE, read_batch
from sluicegate_pulsar.codec.frames import has_valid_checksum, split
from sluicegate_pulsar.codec.metadata import at_once, read_metadata
from sluicegate_pulsar.codec.payloads import packed, unpacked
from sluicegate_pulsar.session.producers.repacking import Repacking

ALL = frozenset(Part)
LZ4 = pb.MessageMetadata.LZ4
ENCRYPTED: dict[str, Any] = {"encryption_keys": [{"key": "k", "value": b"v"}]}
PROPERTIES: dict[str, Any] = {"properties": [{"key": "a", "value": "1"}]}


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library for compression is there, as it is soon after the start."""
    monkeypatch.setattr(Repacking, "is_loaded", True)


class Reader:
    """A plugin whose check reads parts of messages, and keeps what it has seen."""

    def __init__(
        self,
        reads: Collection[str] = ALL,
        decide: Callable[[Sequence[Message]], Decision | None] = lambda messages: None,
        *,
        fail_open: bool = False,
    ) -> None:
        self.reads = reads
        self.decide = decide
        self.fail_open = fail_open
        self.seen: list[Sequence[Message]] = []

    @hookimpl
    def sluicegate_policy_checks(
        self, topic: TopicName, policies: EffectivePolicies, context: TopicState
    ) -> Sequence[Check]:
        kinds = (OperationKind.PUBLISH,)
        return [Check("mine", kinds, self.check, Stage.CUSTOM, fail_open=self.fail_open, reads=self.reads)]

    def check(self, op: Operation, now_ns: int) -> Decision | None:
        self.seen.append(list(op.contents))
        return self.decide(op.contents)


class OtherReader(Reader):
    """A second one beside it."""


def opened(bench: Bench, **options: object) -> Wire:
    wire = Wire(bench, **options)  # type: ignore[arg-type]
    wire.client_sends(producer())
    wire.broker_sends(producer_success())
    wire.sent_up()
    wire.sent_down()
    return wire


def reading(reader: Reader, **policies: Any) -> Wire:
    return opened(Bench({}, [reader], **policies), version=JAVA)


def rewrite(set: Mapping[str, bytes] | None = None, remove: Collection[str] = ()) -> Decision:  # noqa: A002
    reasons = (Reason("mine", Outcome.INVALID, "changed"),)
    return Decision(Action.REWRITE, reasons, headers=HeaderChange(set or {}, frozenset(remove)))


def properties(frame: bytes) -> list[tuple[tuple[str, bytes], ...]]:
    """Of each message of a frame, whose checksum must hold."""
    parts = split(frame, 0, len(frame))
    assert has_valid_checksum(frame, parts)
    head = read_metadata(frame, parts.metadata, parts.payload)
    if not head.is_batch:
        return [tuple((each.key, each.value.encode()) for each in head.parsed.properties)]
    payload = unpacked(head.compression, frame[parts.payload :], head.parsed.uncompressed_size)
    return [content[0] for content in at_once(read_batch(head, payload, {"headers"}))]


def batch(sequence_id: int, messages: Batch, compression: int = 0, **fields: Any) -> bytes:
    content = batch_of(messages)
    return send(
        sequence_id,
        packed(compression, content),
        num_messages_in_batch=len(messages),
        compression=compression,
        uncompressed_size=len(content),
        command={"num_messages": len(messages)},
        **fields,
    )


def repack(wire: Wire) -> int:
    """Give the session turns, and unpack and pack as it asks; how often that was."""
    count = 0
    while True:
        wire.take_turns()
        asked = [
            each for each in wire.commands if isinstance(each, Ask) and isinstance(each.question, Repacking)
        ]
        if not asked:
            return count
        wire.commands.remove(asked[0])
        question = asked[0].question
        assert isinstance(question, Repacking)
        question.run()
        wire.front_answers(question)
        count += 1


def texts(wire: Wire) -> list[str]:
    """Of the refusals that the client got since the last call."""
    return [each.send_error.message for each in wire.answered() if each.HasField("send_error")]


# -- what checks see ------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [0, *CODECS])
def test_each_message_of_a_batch_is_seen(compression: int) -> None:
    reader = Reader()
    wire = reading(reader)
    frame = batch(
        0, [([("a", "1")], "k", b"v"), ([], None, b"")], compression, schema_version=bytes(7) + b"\x05"
    )
    wire.client_sends(frame)

    assert reader.seen == [[Message((("a", b"1"),), b"k", "5", b"v"), Message((), None, "5", b"")]]
    assert wire.sent_up() == [frame]


@pytest.mark.parametrize("compression", [0, *CODECS])
def test_a_single_message_is_seen(compression: int) -> None:
    reader = Reader()
    wire = reading(reader)
    value = b"value " * 9
    fields: dict[str, Any] = {"compression": compression, "uncompressed_size": len(value), **PROPERTIES}
    wire.client_sends(send(0, packed(compression, value), partition_key="k", **fields))

    assert reader.seen == [[Message((("a", b"1"),), b"k", "", value)]]


def test_what_no_check_reads_is_not_kept_and_not_unpacked() -> None:
    reader = Reader({"schema"})
    wire = reading(reader)
    fields: dict[str, Any] = {
        "schema_version": b"\1",
        "num_messages_in_batch": 3,
        "compression": 1,
        **ENCRYPTED,
    }
    wire.client_sends(send(0, b"not LZ4", **fields))

    assert reader.seen == [[Message(schema="01")] * 3]


def test_where_nothing_is_read_messages_pass_unread() -> None:
    wire = opened(Bench(max_publish_rate=1_000))
    assert wire.session.producing._live[0].is_plain
    wire.client_sends(send(0, b"not LZ4", compression=1, num_messages_in_batch=2))
    assert len(wire.sent_up()) == 1


def test_messages_are_not_kept_after_the_decision() -> None:
    reader = Reader()
    wire = reading(reader)
    wire.client_sends(send(0, b"v"))
    operation = wire.session.producing._live[0].operation
    assert (operation.contents, operation.unreadable) == ((), "")


def test_a_policy_that_begins_to_read_reads_the_next_message() -> None:
    bench = Bench()
    wire = opened(bench, version=JAVA)
    wire.client_sends(send(0))
    bench.set(required_headers="a")
    wire.client_sends(send(1), send(2, **PROPERTIES))
    bench.set()
    wire.client_sends(send(3))
    assert [parse(frame).send.sequence_id for frame in wire.sent_up()] == [0, 2, 3]


@pytest.mark.parametrize(
    ("frame", "reads", "problem"),
    [
        (send(0, b"v", **ENCRYPTED), {"value"}, "encrypted"),
        (batch(0, [([], None, b"v")], **ENCRYPTED), {"headers"}, "encrypted"),
        (send(0, b"v", num_chunks_from_msg=2, chunk_id=1, uuid="u"), {"value"}, "a chunk of a message"),
        (
            send(0, b"v", compression=1, uncompressed_size=200 << 20),
            {"value"},
            "209715200 bytes compressed, of which at most 104857600",
        ),
        (
            send(0, b"v", compression=1, uncompressed_size=2),
            {"value"},
            "a compressed payload that is damaged",
        ),
        (send(0, b"v", num_messages_in_batch=2), {"headers"}, "a batch that ends"),
        (batch(0, [([], None, b"")] * 20_001), {"key"}, "a batch of over 20000 messages"),
    ],
    ids=["encrypted", "encrypted batch", "chunk", "bomb", "damaged", "malformed", "many"],
)
def test_messages_that_cannot_be_read_are_refused_or_pass(
    frame: bytes, reads: Collection[str], problem: str
) -> None:
    for fail_open in (False, True):
        bench = Bench({}, [Reader(reads, fail_open=fail_open)])
        wire = opened(bench, version=JAVA)
        wire.client_sends(frame)
        repack(wire)
        assert wire.sent_up() == ([frame] if fail_open else [])
        assert len(texts(wire)) == (0 if fail_open else 1)
        (fault,) = bench.faults.last.values()
        assert f"unreadable: {problem}" in fault.error


@pytest.mark.parametrize("reads", [{"headers"}, {"key"}, {"schema"}])
def test_what_an_encrypted_message_says_outside_its_payload_is_read(reads: Collection[str]) -> None:
    reader = Reader(reads)
    wire = reading(reader)
    wire.client_sends(send(0, b"?", partition_key="k", schema_version=b"\1", **PROPERTIES, **ENCRYPTED))
    (((headers, key, schema, value),),) = reader.seen
    assert (bool(headers), bool(key), bool(schema)) == ("headers" in reads, "key" in reads, "schema" in reads)
    assert value == b""


@pytest.mark.parametrize(
    "fields",
    [ENCRYPTED, {"num_chunks_from_msg": 2, "chunk_id": 0, "uuid": "u"}, {"compression": LZ4}],
    ids=["encrypted", "chunk", "damaged"],
)
def test_a_value_that_cannot_be_read_hides_nothing_from_checks_of_headers(fields: dict[str, Any]) -> None:
    headers, value = Reader({"headers"}), OtherReader({"headers", "value"}, fail_open=True)
    bench = Bench({}, [headers, value], required_headers="a", delay_header="a")
    wire = opened(bench, version=JAVA)
    wire.client_sends(send(0, b"?", **PROPERTIES, **fields), send(1, b"?", **fields))
    assert headers.seen == [[Message((("a", b"1"),))]]
    assert value.seen == []
    assert [parse(frame).send.sequence_id for frame in wire.sent_up()] == [0]


def test_a_message_that_is_damaged_in_transit_is_not_read() -> None:
    frame = bytearray(send(0, b"v"))
    parts = split(bytes(frame), 0, len(frame))
    frame[parts.metadata] ^= 0xFF
    reader = Reader(fail_open=True)
    wire = reading(reader)
    wire.client_sends(bytes(frame))
    assert reader.seen == []
    assert wire.sent_up() == [bytes(frame)]


# -- large ones -----------------------------------------------------------------------------------------


def test_a_large_batch_is_read_in_slices_and_keeps_its_place() -> None:
    reader = Reader({"headers"})
    wire = reading(reader)
    frames = [batch(0, [([("a", "1")], None, b"")] * 3 * CONTENTS_PER_SLICE), send(1)]
    wire.client_sends(*frames)
    assert wire.sent_up() == []
    assert wire.take_turns() >= 3
    assert wire.sent_up() == frames
    assert [len(each) for each in reader.seen] == [3 * CONTENTS_PER_SLICE, 1]
    assert wire.shared.budget.used == 0


@pytest.mark.parametrize("compression", CODECS)
def test_a_large_payload_is_unpacked_in_a_thread(compression: int) -> None:
    reader = Reader({"value"})
    wire = reading(reader)
    value = bytes(100_000)
    frames = [
        send(0, packed(compression, value), compression=compression, uncompressed_size=100_000),
        send(1),
    ]
    wire.client_sends(*frames)
    assert wire.sent_up() == []
    assert wire.shared.budget.used > 100_000
    assert repack(wire) == 1
    assert wire.sent_up() == frames
    assert [message.value for (message,) in reader.seen] == [value, b"hello"]
    assert wire.shared.budget.used == 0


def test_a_front_that_fails_leaves_a_message_unread() -> None:
    wire = reading(Reader({"value"}))
    frame = send(0, packed(LZ4, bytes(100_000)), compression=LZ4, uncompressed_size=100_000)
    wire.client_sends(frame)
    (ask,) = [each for each in wire.commands if isinstance(each, Ask)]
    wire.front_answers(ask.question, TimeoutError())
    assert wire.sent_up() == []
    assert len(texts(wire)) == 1


def test_a_client_that_goes_meanwhile_leaves_nothing() -> None:
    wire = reading(Reader({"value"}))
    wire.client_sends(send(0, packed(LZ4, bytes(100_000)), compression=LZ4, uncompressed_size=100_000))
    wire.close()
    assert wire.shared.budget.used == 0


def test_without_memory_to_unpack_the_connection_is_closed() -> None:
    bench = Bench({}, [Reader({"value"})])
    wire = opened(bench)
    bench.budget.limit = 1_000_000
    wire.client_sends(send(0, b"packed", compression=LZ4, uncompressed_size=2_000_000))
    assert wire.closed is not None
    assert wire.closed.counter == "buffer_budget_used_up"


def test_a_message_that_waits_for_its_rate_is_read_again_only_if_policies_change() -> None:
    reader = Reader()
    wire = reading(reader, max_publish_rate=1)
    wire.client_sends(send(0, **PROPERTIES), send(1, **PROPERTIES))
    assert len(wire.sent_up()) == 1
    wire.wait(3)
    assert len(wire.sent_up()) == 1
    assert all(messages == reader.seen[0] for messages in reader.seen)


# -- changes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [0, *CODECS])
def test_properties_are_removed_from_each_message_of_a_batch(compression: int) -> None:
    wire = opened(Bench(remove_headers="x-*"))
    messages: Batch = [
        ([("a", "1"), ("x-b", "2")], "k", b"v" * 100),
        ([], None, b""),
        ([("x-c", "3")], None, b"w"),
    ]
    before = batch(7, messages, compression, publish_time=5)
    wire.client_sends(before, send(8))
    (after, other) = wire.sent_up()

    assert parse(after) == parse(before)
    assert properties(after) == [(("a", b"1"),), (), ()]
    assert other == send(8)
    parts, old = split(after, 0, len(after)), split(before, 0, len(before))
    new, was = (
        pb.MessageMetadata.FromString(frame[at.metadata : at.payload])
        for frame, at in ((after, parts), (before, old))
    )
    assert new.uncompressed_size < was.uncompressed_size
    new.ClearField("uncompressed_size")
    was.ClearField("uncompressed_size")
    assert new == was
    assert wire.shared.budget.used == 0


def test_properties_of_a_single_message_are_set_and_removed() -> None:
    decision = rewrite({"new": b"2"}, {"a"})
    wire = reading(Reader({"headers"}, lambda messages: decision if messages[0].headers else None))
    wire.client_sends(send(0, b"v", **PROPERTIES), send(1, b"w"))
    changed, same = wire.sent_up()
    assert properties(changed) == [(("new", b"2"),)]
    assert changed.endswith(b"v")
    assert same == send(1, b"w")
    wire.broker_sends(receipt(0), receipt(1))
    assert [each.send_receipt.sequence_id for each in wire.answered()] == [0, 1]


@pytest.mark.parametrize("compression", [0, *CODECS])
def test_a_check_that_reads_nothing_may_set_properties(compression: int) -> None:
    wire = reading(Reader((), lambda messages: rewrite({"by": b"gate"})))
    wire.client_sends(batch(0, [([], None, b"v")] * 2, compression), send(1))
    one, two = wire.sent_up()
    assert properties(one) == [(("by", b"gate"),)] * 2
    assert properties(two) == [(("by", b"gate"),)]


def test_a_rewrite_without_a_change_passes_the_frame() -> None:
    nothing = Decision(Action.REWRITE, (Reason("mine", Outcome.INVALID, "changed"),))
    wire = reading(Reader({"headers"}, lambda messages: nothing))
    wire.client_sends(send(0))
    assert wire.sent_up() == [send(0)]


@pytest.mark.parametrize("compression", CODECS)
def test_a_large_batch_is_packed_in_a_thread(compression: int) -> None:
    wire = opened(Bench(remove_headers="x"))
    messages: Batch = [([("x", "1"), ("a", "1")], None, bytes(200))] * 1_000
    wire.client_sends(batch(0, messages, compression), send(1))
    assert repack(wire) == 3  # unpacked to read, unpacked to change, packed
    one, two = wire.sent_up()
    assert properties(one) == [(("a", b"1"),)] * 1_000
    assert two == send(1)
    assert wire.shared.budget.used == 0


def test_properties_that_cannot_be_set_refuse_the_message() -> None:
    wire = reading(Reader((), lambda messages: rewrite({"by": b"gate"})))
    wire.client_sends(batch(0, [([], None, b"v")], **ENCRYPTED), send(1))
    assert len(wire.sent_up()) == 1
    wire.broker_sends(receipt(1))
    (text,) = texts(wire)
    assert text.startswith("The properties of the message cannot be changed: encrypted [sluicegate ")


def small_broker(bench: Bench) -> Wire:
    """A wire to a broker that takes messages of 100,000 bytes."""
    wire = Wire(bench, is_open=False)
    for asked, answer in ((connect(), connected(100_000)), (producer(), producer_success())):
        wire.client_sends(asked)
        wire.broker_sends(answer)
    wire.sent_up()
    wire.sent_down()
    return wire


@pytest.mark.parametrize("added", [9_000, 10_000])
def test_a_message_does_not_grow_beyond_what_the_broker_takes(added: int) -> None:
    wire = small_broker(Bench({}, [Reader((), lambda messages: rewrite({"by": b"g" * added}))]))
    wire.client_sends(send(0, bytes(100_000)), send(1))
    frames = wire.sent_up()
    assert wire.closed is None
    if added == 9_000:
        assert [len(properties(frame)) for frame in frames] == [1, 1]
        return
    assert [parse(frame).send.sequence_id for frame in frames] == [1]
    wire.broker_sends(receipt(1))
    (text,) = texts(wire)
    assert text.startswith(
        "The properties of the message cannot be changed by mine: it would have 110056 bytes, and the broker "
        "takes messages of 100000 [sluicegate "
    )


@pytest.mark.parametrize("compression", [0, LZ4])
def test_a_batch_does_not_grow_beyond_what_consumers_take(compression: int) -> None:
    # They drop an entry whose payload is larger than the broker's limit, whatever its metadata takes.
    wire = small_broker(Bench({}, [Reader((), lambda messages: rewrite({"by": b"gate"}))]))
    wire.client_sends(batch(0, [([], None, bytes(99_985))], compression))
    repack(wire)
    assert len(wire.sent_up()) == (1 if compression else 0)
    assert len(texts(wire)) == (0 if compression else 1)


def test_a_message_that_is_too_large_already_passes_on_to_the_broker() -> None:
    wire = small_broker(Bench(remove_headers="a"))
    wire.client_sends(send(0, bytes(120_000), **PROPERTIES))
    assert len(wire.sent_up()) == 1


def test_damage_is_not_hidden_by_a_change() -> None:
    wire = reading(Reader({"headers"}, lambda messages: rewrite({"by": b"gate"})))
    frame = bytearray(send(0, b"v"))
    frame[-1] ^= 1
    wire.client_sends(bytes(frame))
    assert wire.sent_up() == []
    (answer,) = wire.answered()
    assert answer.send_error.error == pb.CHECKSUM_ERROR
    assert wire.shared.counts["publish_checksum_failed"] == 1


def test_a_change_goes_with_a_fixed_delay_and_a_rate() -> None:
    wire = opened(Bench(remove_headers="a", fixed_delivery_delay=5_000, max_publish_rate=1))
    wire.client_sends(send(0, publish_time=1, **PROPERTIES), send(1, publish_time=1, **PROPERTIES))
    wire.wait(3)
    frames = wire.sent_up()
    assert [properties(frame) for frame in frames] == [[()], [()]]
    assert [parse(frame).send.sequence_id for frame in frames] == [0, 1]
    for frame in frames:
        parts = split(frame, 0, len(frame))
        head = read_metadata(frame, parts.metadata, parts.payload)
        assert head.deliver_at is not None


def test_each_chunk_is_changed() -> None:
    wire = opened(Bench(remove_headers="a"))
    chunks = [
        send(
            0,
            b"v",
            num_chunks_from_msg=2,
            chunk_id=at,
            uuid="u",
            total_chunk_msg_size=2,
            command={"is_chunk": True},
            **PROPERTIES,
        )
        for at in (0, 1)
    ]
    wire.client_sends(*chunks)
    assert [properties(frame) for frame in wire.sent_up()] == [[()], [()]]


# -- the product's policies -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policies", "passes", "refused", "text"),
    [
        ({"required_headers": "a"}, PROPERTIES, {}, "has no header a"),
        ({"forbidden_headers": "a"}, {}, PROPERTIES, "has header a, which"),
        (
            {"allowed_content": "5"},
            {"schema_version": bytes(7) + b"\5"},
            {"schema_version": b"\1"},
            "by schema 01",
        ),
        ({"allowed_content": "any"}, {"schema_version": b"\1"}, {}, "names no schema"),
    ],
)
def test_a_policy_refuses_a_message_in_its_turn(
    policies: dict[str, str], passes: dict[str, Any], refused: dict[str, Any], text: str
) -> None:
    wire = opened(Bench(policies), version=JAVA)
    wire.client_sends(send(0, **passes), send(1, **refused), send(2, **passes))
    assert [parse(frame).send.sequence_id for frame in wire.sent_up()] == [0, 2]
    assert wire.answered() == []
    wire.broker_sends(receipt(0))
    one, two = wire.answered()
    assert one.send_receipt.sequence_id == 0
    assert text in two.send_error.message
    assert two.send_error.error == pb.NOT_ALLOWED_ERROR
