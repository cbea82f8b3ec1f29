"""What policies see of messages, and how their headers change; protobuf's own library is the oracle."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from tests.grpc.semantics.fields.test_fields import field

from sluicegate.model import HeaderChange, Message, Method, Part, Role
from sluicegate_grpc.semantics import content_plan
from sluicegate_grpc.semantics.content_plan import CannotChangeError, ContentPlan, Contents
from sluicegate_grpc.semantics.fields import MAX_FIELDS

FLAT = Method(Role.PUBLISH, topic=(1,), payload=(3,), headers=(7,), key=(10,), schema=(9,))
DEEP = Method(Role.PUBLISH, topic=(1,), payload=(4, 3), headers=(4, 7), key=(4, 10), schema=(4, 9))
BATCH = Method(Role.PUBLISH, topic=(1,), batch=(2,), payload=(2, 3), headers=(2, 7), key=(2, 10))
BARE = Method(Role.PUBLISH, topic=(1,), payload=(3,))


def _classes() -> tuple[Any, Any]:
    """A message with headers, and one that holds such messages."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="contents.proto", package="contents", syntax="proto3")
    sent = file.message_type.add(name="Sent")
    entry = sent.nested_type.add(name="HeadersEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=kinds.TYPE_BYTES, label=kinds.LABEL_OPTIONAL)
    for name, number, kind in (
        ("topic", 1, kinds.TYPE_STRING),
        ("payload", 3, kinds.TYPE_BYTES),
        ("schema", 9, kinds.TYPE_UINT32),
        ("key", 10, kinds.TYPE_STRING),
        ("more", 20, kinds.TYPE_DOUBLE),
    ):
        sent.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
    sent.field.add(
        name="headers",
        number=7,
        type=kinds.TYPE_MESSAGE,
        type_name=".contents.Sent.HeadersEntry",
        label=kinds.LABEL_REPEATED,
    )
    outer = file.message_type.add(name="Outer")
    outer.field.add(name="topic", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    for name, number, label in (("batch", 2, kinds.LABEL_REPEATED), ("one", 4, kinds.LABEL_OPTIONAL)):
        outer.field.add(
            name=name, number=number, type=kinds.TYPE_MESSAGE, type_name=".contents.Sent", label=label
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("contents.Sent", "contents.Outer")
    sent_class, outer_class = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names
    )
    return sent_class, outer_class


SENT, OUTER = _classes()
NAMES = st.sampled_from(["", "a", "b", "x-é", "a" * 130])
HEADERS = st.dictionaries(NAMES, st.binary(max_size=200))
SENTS = st.builds(
    SENT,
    payload=st.binary(max_size=5),
    key=st.text(max_size=3),
    schema=st.integers(0, 2**32 - 1),
    more=st.floats(allow_nan=False),
    headers=HEADERS,
)
CHANGES = st.builds(HeaderChange, HEADERS, st.frozensets(NAMES)).filter(
    lambda change: not change.set.keys() & change.remove
)


def seen(sent: Any) -> Message:
    """What policies see of a message."""
    schema = str(sent.schema) if sent.schema else ""
    return Message(
        tuple(sorted(sent.headers.items())), sent.key.encode() if sent.key else None, schema, sent.payload
    )


def read(method: Method, data: bytes) -> list[Message]:
    found = ContentPlan(method).read(data, tuple(Part))
    assert not found.unreadable
    return [message._replace(headers=tuple(sorted(message.headers))) for message in found.messages]


def after(sent: Any, change: HeaderChange) -> Any:
    """A message with other headers, by protobuf's library."""
    made = SENT()
    made.CopyFrom(sent)
    made.ClearField("headers")
    made.headers.update(dict(change.apply(tuple(sent.headers.items()))))
    return made


@given(SENTS)
def test_every_part_is_read(sent: Any) -> None:
    assert read(FLAT, sent.SerializeToString()) == [seen(sent)]
    assert read(DEEP, OUTER(topic="t", one=sent).SerializeToString()) == [seen(sent)]


@given(st.lists(SENTS, max_size=3))
def test_every_message_of_a_batch_is_read(sents: list[Any]) -> None:
    data = OUTER(topic="t", batch=sents).SerializeToString()
    assert read(BATCH, data) == [seen(sent)._replace(schema="") for sent in sents]


@given(SENTS, SENTS)
def test_a_message_that_comes_in_parts_is_one(first: Any, second: Any) -> None:
    second.ClearField("payload")
    parts = OUTER(one=first).SerializeToString() + OUTER(one=second).SerializeToString()
    assert read(DEEP, parts) == [seen(OUTER.FromString(parts).one)]


@given(SENTS, CHANGES)
def test_changed_headers_are_those_that_protobuf_reads(sent: Any, change: HeaderChange) -> None:
    flat = ContentPlan(FLAT).changed(sent.SerializeToString(), change)
    assert SENT.FromString(flat) == after(sent, change)
    deep = ContentPlan(DEEP).changed(OUTER(topic="t", one=sent).SerializeToString(), change)
    assert OUTER.FromString(deep) == OUTER(topic="t", one=after(sent, change))


@given(st.lists(SENTS, max_size=3), CHANGES)
def test_the_headers_of_every_message_of_a_batch_change(sents: list[Any], change: HeaderChange) -> None:
    changed = ContentPlan(BATCH).changed(OUTER(topic="t", batch=sents).SerializeToString(), change)
    assert OUTER.FromString(changed) == OUTER(topic="t", batch=[after(sent, change) for sent in sents])


@given(SENTS, SENTS, CHANGES)
def test_the_headers_of_a_message_in_parts_change(first: Any, second: Any, change: HeaderChange) -> None:
    parts = OUTER(one=first).SerializeToString() + OUTER(one=second).SerializeToString()
    merged = OUTER.FromString(parts).one
    changed = OUTER.FromString(ContentPlan(DEEP).changed(parts, change))
    assert changed.one == after(merged, change)


def test_headers_are_added_to_a_message_that_is_left_out() -> None:
    changed = ContentPlan(DEEP).changed(OUTER(topic="t").SerializeToString(), HeaderChange({"a": b"1"}))
    assert OUTER.FromString(changed) == OUTER(topic="t", one=SENT(headers={"a": b"1"}))


@given(st.lists(st.tuples(st.integers(1, 30), st.binary(max_size=3))), st.data())
def test_all_but_the_headers_is_the_same_byte_for_byte(
    fields: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    """Also fields out of order, that are not known, or that come twice."""
    others = [field(number, value) for number, value in fields if number != 7]
    places = data.draw(st.lists(st.integers(0, len(others)), max_size=3))
    encoded = list(others)
    for place in places:
        encoded.insert(place, field(7, field(1, b"a") + field(2, b"1")))
    change = HeaderChange(remove=frozenset({"a"}))
    assert ContentPlan(FLAT).changed(b"".join(encoded), change) == b"".join(others)
    nested = field(1, b"t") + field(4, b"".join(encoded))
    assert ContentPlan(DEEP).changed(nested, change) == field(1, b"t") + field(4, b"".join(others))


def test_a_field_without_such_headers_keeps_even_an_unusual_length() -> None:
    """A length may be written with more bytes than it takes."""
    padded = field(1, b"t") + b"\x22\x83\x00" + field(3, b"x")
    assert ContentPlan(DEEP).changed(padded, HeaderChange(remove=frozenset({"a"}))) == padded


@given(st.binary(max_size=60), CHANGES)
def test_any_bytes_are_read_or_refused(data: bytes, change: HeaderChange) -> None:
    for method in (FLAT, DEEP, BATCH, BARE):
        plan = ContentPlan(method)
        found = plan.read(data, tuple(Part))
        try:
            plan.changed(data, change)
        except CannotChangeError:
            assert found.unreadable or method is BARE


@pytest.mark.parametrize(
    "data",
    [
        field(3, b"x") + field(3, b"y"),  # which of the two depends on its type
        field(7, field(1, b"\xff")),
        field(7, b"\x0a\x05"),
        field(7, field(1, b"a")) * (MAX_FIELDS // 2 + 1),
        b"\x0a\xff",
    ],
)
def test_what_cannot_be_read_says_so(data: bytes) -> None:
    found = ContentPlan(FLAT).read(data, (Part.HEADERS, Part.VALUE))
    assert found.messages == []
    assert found.unreadable == "they are malformed, or have too many fields"


def test_a_batch_is_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_plan, "MAX_MESSAGES", 3)
    assert len(ContentPlan(BATCH).read(field(2, b"") * 3, (Part.HEADERS,)).messages) == 3
    found = ContentPlan(BATCH).read(field(2, b"") * 4, (Part.HEADERS,))
    assert found.unreadable == "more than 3 in one request, of which no more are read"


def test_what_no_policy_asks_for_is_not_read() -> None:
    data = field(3, b"x") + field(10, b"k") + field(7, field(1, b"a"))
    assert ContentPlan(FLAT).read(data, (Part.KEY,)) == Contents([Message(key=b"k")], "", 3)


def test_a_schema_may_be_a_text() -> None:
    assert ContentPlan(FLAT).read(field(9, b"v1"), (Part.SCHEMA,)).messages == [Message(schema="v1")]


def test_messages_of_a_method_without_headers_have_none() -> None:
    plan = ContentPlan(BARE)
    data = field(3, b"x")
    assert plan.read(data, (Part.HEADERS,)).messages == [Message()]
    assert plan.changed(data, HeaderChange(remove=frozenset({"a"}))) == data
    with pytest.raises(CannotChangeError, match="messages of this method have no headers"):
        plan.changed(data, HeaderChange({"a": b"1"}))
