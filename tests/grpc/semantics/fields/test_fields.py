"""Reading fields out of encoded messages, against protobuf's own encoder and parser as the oracle."""

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.model.methods import Method, Role
from sluicegate_grpc.semantics.fields import MAX_FIELDS, Missing, Values
from sluicegate_grpc.semantics.plans import plan, response_plan

# FieldDescriptorProto: name 1 (text), number 3 (int), type_name 6 (text), default_value 7 (text), options 8
# (message: ctype 1, ...); DescriptorProto: name 1, field 2. So a message with messages in it is at hand.
PUBLISH = Method(Role.PUBLISH, topic=(8, 1), producer=(3,), payload=(7,))


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def publish(topic: str, producer: int, payload: bytes, tail: bytes = b"") -> bytes:
    return field(8, field(1, topic.encode())) + field(3, producer) + field(7, payload) + tail


def found(result: Values | Missing) -> Values:
    assert isinstance(result, Values), result
    return result


@given(st.text(max_size=300), st.integers(0, 2**64 - 1), st.binary(max_size=400), st.integers(0, 7))
def test_values_are_found_at_any_offset(topic: str, producer: int, payload: bytes, before: int) -> None:
    message = publish(topic, producer, payload)
    data = b"\xff" * before + message + b"\xff"
    for buffer in (data, memoryview(data)):
        values = found(plan(PUBLISH).read(buffer, before, before + len(message)))
        assert (values.topic, values.producer, values.payload) == (topic, producer, len(payload))
        assert values.rest == -1


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_rejected_as_by_protobuf(data: bytes) -> None:
    """What protobuf takes without groups is taken, with the same values; what it refuses is refused."""
    method = Method(Role.ATTACH_PRODUCER, topic=(1,), subscription=(6,), reliable=(3,))
    result = plan(method).read(data, 0, len(data))
    try:
        parsed = FieldDescriptorProto.FromString(data)
    except DecodeError:
        # Protobuf also reads the fields that policies do not ask for.
        return
    if isinstance(result, Values):
        assert (result.topic, result.subscription) == (parsed.name, parsed.type_name)
        assert result.reliable & 0xFFFFFFFF == parsed.number & 0xFFFFFFFF


@given(st.integers(0, 2**64 - 1))
def test_an_id_of_32_bits_is_read_as_servers_read_it(value: int) -> None:
    data = field(3, value)
    stored = FieldDescriptorProto.FromString(data).number & 0xFFFFFFFF
    method = Method(Role.PUBLISH, producer=(3,), payload=(7,), id_bits=32)
    assert found(plan(method).read(data, 0, len(data))).producer == stored
    attach = Method(Role.ATTACH_PRODUCER, topic=(1,), attachment=(3,), id_bits=32)
    assert found(response_plan(attach).read(data, 0, len(data))).attachment == stored


@given(
    st.lists(
        st.sampled_from(
            [field(1, b"/a/b"), field(1, b"/c/d"), field(2, field(1, b"x")), field(99, b"y" * 200)]
        )
    )
)
def test_the_last_value_wins_and_unknown_fields_are_skipped(parts: list[bytes]) -> None:
    data = b"".join(parts)
    values = found(plan(Method(Role.ACKNOWLEDGE, topic=(1,))).read(data, 0, len(data)))
    assert values.topic == DescriptorProto.FromString(data).name


def test_a_repeated_submessage_is_merged() -> None:
    file = field(4, field(1, b"first") + field(5, b"")) + field(4, field(5, b""))
    values = found(plan(Method(Role.ACKNOWLEDGE, topic=(4, 1), position=(4,))).read(file, 0, len(file)))
    assert values.topic == "first"
    assert values.position == field(5, b"")
    assert len(FileDescriptorProto.FromString(file).message_type) == 2


@given(st.lists(st.lists(st.text(max_size=40), max_size=3), max_size=4))
def test_a_payload_that_is_a_message_counts_with_all_its_parts(parts: list[list[str]]) -> None:
    """Servers merge them; field 999 of the options is a list of messages with a text in field 3."""
    options = [b"".join(field(999, field(3, text.encode())) for text in part) for part in parts]
    data = field(1, b"t") + b"".join(field(8, each) for each in options)
    stored = FieldDescriptorProto.FromString(data).options.ByteSize()
    payload = found(plan(Method(Role.PUBLISH, topic=(1,), payload=(8,))).read(data, 0, len(data))).payload
    assert payload == stored


@pytest.mark.parametrize("size", [3, 3_000])
def test_payloads_in_parts_of_a_message_add_up(size: int) -> None:
    part = field(8, field(2, bytes(size)) + field(2, b"x"))
    data = field(8, field(1, b"t")) + part * 2 + field(8, field(1, b"t"))
    reads = plan(Method(Role.PUBLISH, topic=(8, 1), payload=(8, 2)))
    for _ in range(2):  # the second time, short ones are remembered
        assert found(reads.read(data, 0, len(data))).payload == 2 * (size + 1)


@pytest.mark.parametrize(
    "data",
    [
        field(8, field(1, b"\xff")),
        b"\x00",
        b"\x07",
        b"\x1b",
        b"\x42\x05a",
        b"\x80" * 11,
        b"\x18" + b"\xff" * 10 + b"\x01",
        b"\xfa\xff\xff\xff\xff\x01\x00",
        b"\x3a",
        b"\x42\x02\x0a\x05",
    ],
)
def test_malformed_bytes_are_rejected(data: bytes) -> None:
    assert plan(PUBLISH).read(data, 0, len(data)) is Missing.MALFORMED


def test_no_byte_after_the_message_is_read() -> None:
    data = field(3, 7) + b"\x42\x02\x0a\x00"
    assert found(plan(PUBLISH).read(data, 0, 2)).topic == ""
    assert plan(PUBLISH).read(data, 0, 3) is Missing.MALFORMED


@given(st.binary(min_size=50, max_size=300), st.binary(max_size=300), st.data())
def test_values_are_known_before_the_payload_arrives(
    payload: bytes, behind: bytes, data: st.DataObject
) -> None:
    message = publish("/default/t", 7, payload, field(9, behind))
    stop = data.draw(st.integers(0, len(message) - 1))
    result = plan(PUBLISH).read(message[:stop], 0, stop, len(message))
    known_from = message.index(field(7, payload)) + len(field(7, payload)) - len(payload)
    if stop < known_from:
        assert result is Missing.MORE
    else:
        values = found(result)
        assert (values.topic, values.producer, values.payload) == ("/default/t", 7, len(payload))


def test_a_payload_that_holds_the_topic_is_awaited() -> None:
    message = field(3, 7) + field(8, field(1, b"t") + field(2, b"x" * 300))
    reads = plan(Method(Role.PUBLISH, topic=(8, 1), producer=(3,), payload=(8,)))
    for stop in range(len(message)):
        assert reads.read(message[:stop], 0, stop, len(message)) is Missing.MORE
    values = found(reads.read(message, 0, len(message)))
    assert (values.topic, values.payload) == ("t", 306)


@given(
    st.sampled_from([b"", field(9, b"key"), field(10, 300), field(9, b"x" * 300) + field(10, 1)]),
    st.sampled_from([b"", field(8, field(1, b"/other")), field(7, b"longer"), field(3, 8)]),
    st.data(),
)
def test_a_contradicting_value_is_detected_before_the_message_ends(
    harmless: bytes, other: bytes, data: st.DataObject
) -> None:
    message = publish("/default/t", 7, b"p" * 40, harmless + other)
    known_from = message.index(b"p" * 40)
    there = data.draw(st.integers(known_from, len(message) - 1))
    reads = plan(PUBLISH)
    values = reads.read(message[:there], 0, there, len(message))
    if not isinstance(values, Values):  # the rest of what is there is cut off, or one of its fields is
        return
    if values.payload != 40 or values.producer != 7 or values.topic != "/default/t":
        return  # it was there already, and won
    tail = reads.tail(values, there)
    agrees = tail.agrees(message[there - tail.lacks : there]) if tail.lacks else True
    at = there
    while at < len(message) and agrees:
        upto = data.draw(st.integers(at + 1, len(message)))
        agrees = tail.agrees(message[at:upto])
        at = upto
    assert agrees == (not other)


def test_a_malformed_rest_is_detected() -> None:
    message = publish("/default/t", 7, b"p" * 40)
    reads = plan(PUBLISH)
    values = found(reads.read(message, 0, len(message) - 10, len(message) + 50))
    tail = reads.tail(values, len(message) - 10)
    assert tail.agrees(b"p" * 10)
    assert not tail.agrees(b"\x00")


def test_fields_of_the_response_are_read_from_the_response() -> None:
    method = Method(Role.DISPATCH, consumer=(2,), payload=(3,), position=(2,))
    request = field(1, 9) + field(2, 5)
    assert found(plan(method).read(request, 0, len(request))).consumer == 5
    response = field(2, field(5, 9)) + field(3, b"abc")
    values = found(response_plan(method).read(response, 0, len(response)))
    assert (values.payload, values.position) == (3, field(5, 9))
    attach = Method(Role.ATTACH_PRODUCER, topic=(3,), producer=(2,), attachment=(2,))
    answer = field(2, b"an-id")
    assert found(response_plan(attach).read(answer, 0, len(answer))).attachment == "an-id"
    assert plan(attach).wanted != response_plan(attach).wanted


def test_a_position_is_a_number_or_the_raw_field() -> None:
    message = field(2, field(1, 7) + field(4, 12))
    for path, position in (((2, 4), 12), ((2,), field(1, 7) + field(4, 12)), ((2, 5), b"")):
        method = Method(Role.ACKNOWLEDGE, topic=(4,), position=path)
        assert found(plan(method).read(message, 0, len(message))).position == position


def test_an_id_given_as_number_and_text_is_invalid() -> None:
    method = Method(Role.KEEP_ALIVE, attachment=(3,))
    data = field(3, 7) + field(3, b"seven")
    assert plan(method).read(data, 0, len(data)) is Missing.MALFORMED


def test_an_id_given_as_number_and_text_in_merged_messages_is_invalid() -> None:
    method = Method(Role.PUBLISH, producer=(2, 1), payload=(3,))
    data = field(2, field(1, 7)) + field(2, field(1, b"seven")) + field(3, b"payload")
    assert plan(method).read(data, 0, len(data)) is Missing.MALFORMED


@pytest.mark.parametrize("path", [(1,), (1, 1)])
def test_an_overlong_name_is_invalid(path: tuple[int, ...]) -> None:
    method = Method(Role.PUBLISH, topic=path, payload=(3,))
    for size, is_read in ((4_096, True), (4_097, False)):
        name = field(1, b"t" * size)
        data = (name if len(path) == 1 else field(1, name)) + field(3, b"payload")
        values = plan(method).read(data, 0, len(data))
        assert isinstance(values, Values) == is_read
        assert is_read or values is Missing.MALFORMED


def test_a_message_with_too_many_fields_is_malformed() -> None:
    message = publish("t", 1, b"p")  # of 4 fields, as its topic is in a message of its own
    for count, is_read in ((MAX_FIELDS - 4, True), (MAX_FIELDS - 3, False)):
        data = message + field(500, 1) * count
        assert isinstance(plan(PUBLISH).read(data, 0, len(data)), Values) == is_read


@pytest.mark.parametrize("within", [99, 999])
def test_fields_of_messages_in_a_message_count_whether_or_not_they_are_remembered(within: int) -> None:
    inner = field(8, field(500, 1) * within)
    count = (MAX_FIELDS - 4) // (within + 1)
    rest = MAX_FIELDS - 4 - count * (within + 1)
    reads = plan(PUBLISH)
    for more, is_read in ((0, True), (1, False), (0, True), (1, False)):
        data = publish("t", 1, b"p") + inner * count + field(500, 1) * (rest + more)
        assert isinstance(reads.read(data, 0, len(data)), Values) == is_read
    data = publish("t", 1, b"p", field(500, 1) * (rest + 1)) + inner * count
    assert reads.read(data, 0, len(data)) is Missing.MALFORMED


def test_a_rest_with_too_many_fields_is_rejected() -> None:
    message = publish("t", 1, b"p")
    values = found(plan(PUBLISH).read(message, 0, len(message), len(message) + 100_000))
    tail = plan(PUBLISH).tail(values, len(message))
    assert tail.agrees(field(500, 1) * (MAX_FIELDS // 2))
    assert tail.agrees(field(500, 1) * (MAX_FIELDS // 2 - 4))  # of which its beginning has had 4
    assert not tail.agrees(field(500, 1))
