"""Sizes of batches and of whole messages."""

from hypothesis import given
from hypothesis import strategies as st
from tests.grpc.semantics.fields.test_fields import field, found

from sluicegate.model.methods import Method, Role
from sluicegate_grpc.semantics.fields import MAX_FIELDS, Missing, Values
from sluicegate_grpc.semantics.plans import plan, response_plan

BATCH = Method(Role.PUBLISH, topic=(1,), batch=(2,), payload=(2, 3), by_connection=True)
WHOLE = Method(Role.PUBLISH, topic=(1,), batch=(2,), by_connection=True, size_of="message")
ONE = Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,), name=(5,))
SIZES = st.lists(st.integers(0, 300), max_size=8)


def batch(sizes: list[int], topic: bytes = b"/a/b", more: bytes = b"") -> bytes:
    messages = [field(1, 7) + field(3, bytes(size)) + field(5, b"name") for size in sizes]
    return field(9, b"?") + b"".join(field(2, each) for each in messages) + field(1, topic) + more


@given(SIZES, st.integers(0, 5))
def test_messages_of_a_batch_are_counted_and_measured_one_by_one(sizes: list[int], before: int) -> None:
    data = bytes(before) + batch(sizes)
    values = found(plan(BATCH).read(data, before, len(data)))
    assert (values.topic, values.messages, values.payload) == ("/a/b", len(sizes), sum(sizes))
    assert values.largest == max(sizes, default=0)
    whole = found(plan(WHOLE).read(memoryview(data), before, len(data)))
    sizes = [len(field(1, 7) + field(3, bytes(size)) + field(5, b"name")) for size in sizes]
    assert (whole.messages, whole.payload) == (len(sizes), sum(sizes))


@given(SIZES, st.data())
def test_a_batch_is_decided_once_it_is_complete(sizes: list[int], data: st.DataObject) -> None:
    encoded = batch(sizes)
    there = data.draw(st.integers(0, len(encoded) - 1))
    assert plan(BATCH).read(encoded, 0, there, len(encoded)) is Missing.MORE


@given(st.binary(max_size=60))
def test_any_bytes_raise_nothing(data: bytes) -> None:
    for method in (BATCH, WHOLE):
        plan(method).read(data, 0, len(data))
    plan(BATCH).read(batch([3], more=data), 0, len(batch([3], more=data)))


def test_an_unreadable_message_makes_its_batch_malformed() -> None:
    data = field(1, b"/a/b") + field(2, b"\x1a\x7f")
    assert plan(BATCH).read(data, 0, len(data)) is Missing.MALFORMED


def test_the_messages_of_a_batch_share_the_fields_that_it_may_have() -> None:
    for method in (BATCH, WHOLE):
        messages = field(2, field(9, 1) * 99) * (MAX_FIELDS // 100 - 1)
        for more, is_read in ((99, True), (100, False)):
            data = messages + field(1, b"/a/b") + field(9, 1) * more
            assert isinstance(plan(method).read(data, 0, len(data)), Values) == is_read


@given(st.integers(0, 500), st.integers(0, 500))
def test_the_size_of_a_whole_message_is_its_length(size: int, there: int) -> None:
    data = field(1, b"/a/b") + field(2, 7) + field(3, bytes(size)) + field(6, b"attribute")
    method = Method(Role.PUBLISH, topic=(1,), producer=(2,), size_of="message")
    assert found(plan(method).read(data, 0, len(data))).payload == len(data)
    part = plan(method).read(data, 0, min(there, len(data)), len(data))
    assert part is Missing.MORE or found(part).payload == len(data)
    delivered = Method(Role.DISPATCH, consumer=(1,), position=(1,), size_of="message")
    assert found(response_plan(delivered).read(data, 0, len(data))).payload == len(data)


def test_a_name_is_read_on_request() -> None:
    data = field(1, b"/a/b") + field(5, b"p")
    assert found(plan(ONE).read(data, 0, len(data))).name is None
    assert found(plan(ONE, named=True).read(data, 0, len(data))).name == "p"
