"""Reads the few fields that policies ask for out of encoded protobuf messages, without their classes.

The bytes come from clients: whatever they hold, nothing is raised, and no more is read than is there. As the
protobuf encoding has it (https://protobuf.dev/programming-guides/encoding/), the last value of a field wins,
and messages that come twice are merged. Whether a payload is one is not known here, so its sizes add up.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, TypeAlias

from sluicegate.model.methods import Path, Role

Data: TypeAlias = bytes | memoryview
_VARINT, _FIXED64, LENGTH, _FIXED32 = 0, 1, 2, 5
_COUNTED = frozenset({_VARINT, LENGTH})
"""Wire types of fields that begin with a number."""
_MAX_TAG = 2**32 - 1
_MASK64 = 2**64 - 1
_MAX_VARINT = 10
_MAX_SHIFT = 63
_MAX_KNOWN = 256
_MAX_KNOWN_BYTES = 1_024
MAX_FIELDS: Final = 10_000
"""Fields of one message that are looked at, some 0.25 us each; a message with more counts as malformed.

Those of the messages in it count too, where a path leads into them.
"""
_MAX_TEXT = 4_096
"""Bytes of a topic's or a client's name: no broker takes longer ones, and the gate has to keep them."""


class Missing(Enum):
    """Why a message's values are not known."""

    MORE = auto()
    """What has come of the message does not hold all of them."""
    MALFORMED = auto()
    """It is no such message, and a server could not read it either."""


class Values:
    """What a plan found; a field that the message does not hold has its default, as protobuf says."""

    topic: str = ""
    producer: int | str = 0
    subscription: str = ""
    consumer: int | str = 0
    payload: int = 0
    """Bytes of the payload, or of what the method says the size is; of a batch, those of all messages."""
    messages: int = 1
    """How many messages it carries."""
    largest: int = 0
    """Bytes of the largest one of a batch."""
    name: str | None = None
    """The producer's name; None if it was not looked for."""
    position: bytes | int = b""
    """A number, or else the encoded field as it is."""
    published: int = 0
    reliable: int = 0
    attachment: int | str = 0
    rest: int = -1
    """Of a message that is not all there: where in it the first field begins that was not looked at."""
    left: int = 0
    """How many more fields it may have."""


class Kind(Enum):
    """How the value of a field is read."""

    TEXT = auto()
    ID = auto()
    """A number (as a varint) or a text, as servers read it."""
    NUMBER = auto()
    SIZE = auto()
    BYTES = auto()
    """The field as it is, or a number."""


_SIZE: Final = Kind.SIZE
"""Python 3.11 takes 50 ns to look a member up."""


@dataclass(frozen=True, slots=True)
class _Field:
    """What to do with a field that is in a path."""

    name: str
    """The attribute of `Values`; empty if only something inside it is wanted."""
    kind: Kind
    bit: int
    """Says in a set of bits that the field was there."""
    inner: "Mapping[int, _Field]"
    """Fields of the message in it, by tag."""
    known: "dict[bytes, tuple[int, int, dict[str, int | str | bytes]]]"
    """Of such messages: the bits of their fields, how many were looked at, and what was found."""
    mask: int = _MASK64
    """The bits that servers read of a number."""


_Fields: TypeAlias = Mapping[int, _Field]
KINDS: Final[Mapping[str, Kind]] = {
    "topic": Kind.TEXT,
    "producer": Kind.ID,
    "name": Kind.TEXT,
    "subscription": Kind.TEXT,
    "consumer": Kind.ID,
    "payload": Kind.SIZE,  # nothing else is one
    "position": Kind.BYTES,
    "published": Kind.NUMBER,
    "reliable": Kind.NUMBER,
    "attachment": Kind.ID,
    "message_topic": Kind.TEXT,
    "message_subscription": Kind.TEXT,
}
"""By the name of a path."""
IN_RESPONSE: Final[Mapping[Role, frozenset[str]]] = {
    Role.ATTACH_PRODUCER: frozenset({"attachment"}),
    Role.SUBSCRIBE: frozenset({"attachment"}),
    Role.DISPATCH: frozenset({"payload", "position", "published", "message_topic", "message_subscription"}),
}
"""Paths that point into the response, by role."""
_WIRE_TYPES: Final[Mapping[Kind, frozenset[int]]] = {
    Kind.TEXT: frozenset({LENGTH}),
    Kind.ID: frozenset({_VARINT, LENGTH}),
    Kind.NUMBER: frozenset({_VARINT}),
    Kind.SIZE: frozenset({LENGTH}),
    Kind.BYTES: frozenset({_VARINT, LENGTH}),
}


class MalformedError(Exception):
    """It is no message, or one with too many fields. `Plan` and `Tail` say so by what they return."""


class Plan:
    """How to find some values in messages of one type.

    :param paths: by the name of the attribute of `Values`.
    :param id_bits: how wide ids are.
    """

    __slots__ = ("_fields", "wanted")

    def __init__(self, paths: Mapping[str, Path], id_bits: int = 64) -> None:
        named = [(path, name) for name, path in paths.items() if path]
        bits = {name: 1 << place for place, (_, name) in enumerate(named)}
        self._fields = _compile(named, bits, 2**id_bits - 1)
        self.wanted = sum(bits.values())
        """The bits of the fields that have been seen once all is found; 0 if nothing is wanted."""

    def read(
        self, data: Data, start: int, stop: int, end: int | None = None, left: int = MAX_FIELDS
    ) -> Values | Missing:
        """Find the values.

        :param data: a buffer that holds the message, or its beginning.
        :param start: where the message begins.
        :param stop: where the available part of it ends.
        :param end: where it will end, `stop` if it is all there.
        :param left: how many fields it may have; less if it is part of a message of which others were read.
        :return: the values; for a partial message only if all were found. Pass the bytes from `Values.rest`
            on to a `Tail`.
        """
        # <hot> Runs for every message.
        if end is None:
            end = stop
        values = Values()
        try:
            at, seen, values.left = _scan(data, start, stop, end, self._fields, values, left)
        except (MalformedError, UnicodeDecodeError):
            return Missing.MALFORMED
        if stop == end:
            return values if at == end else Missing.MALFORMED
        if seen != self.wanted:
            return Missing.MORE
        values.rest = at - start
        return values

    def tail(self, values: Values, there: int) -> "Tail":
        """What watches the rest of a message whose values were found before it was all there.

        :param values: found in it.
        :param there: how many bytes of it were there then.
        """
        return Tail(self._fields, values.rest - there, values.left)


class Tail:
    """Checks that the rest of a message does not change a value that was decided on.

    :param fields: of the plan.
    :param skip: bytes that come before the next field; negative if it has begun, or was not looked at.
    :param left: how many more fields the message may have.
    """

    __slots__ = ("_carry", "_fields", "_left", "_skip")

    def __init__(self, fields: _Fields, skip: int, left: int) -> None:
        self._fields = fields
        self._left = left
        self._skip = skip
        self._carry = b""

    @property
    def lacks(self) -> int:
        """How many of the bytes that were there before are to be given first."""
        return max(0, -self._skip)

    def agrees(self, data: Data) -> bool:
        """False if these next bytes of the message bring another value, or are no message."""
        if self._skip < 0:
            self._skip = 0
        if len(data) <= self._skip:
            self._skip -= len(data)
            return True
        data = self._carry + bytes(data[self._skip :])
        self._carry, self._skip = b"", 0
        try:
            at = self._walk(data)
        except MalformedError:
            return False
        if at < len(data):
            self._carry = data[at:]
        else:
            self._skip = at - len(data)
        return True

    def _walk(self, data: bytes) -> int:
        at, stop = 0, len(data)
        while at < stop:
            begin = at
            tag, at = _tag(data, at, stop)
            after = _extent(data, tag & 7, at, stop)[1]
            if after < 0:
                return begin
            self._left -= 1
            if tag in self._fields or self._left < 0:
                raise MalformedError
            at = after
        return at


def occurrences(data: Data, at: int, stop: int, tag: int) -> Iterator[tuple[int, int]]:
    """Where the values of a repeated field stand in a message.

    :param tag: number and wire type of the field.
    :raises MalformedError: if it is no message.
    """
    for here, _, begin, after in walk(data, at, stop):
        if here == tag:
            yield begin, after


def walk(data: Data, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message, of which nothing is known: tag, where each begins, its value, where it ends.

    :raises MalformedError: if it is no message.
    """
    while at < stop:
        begin = at
        tag, at = _tag(data, at, stop)
        value, after = _extent(data, tag & 7, at, stop)
        if not at < after <= stop:
            raise MalformedError
        yield tag, begin, value, after
        at = after


def varint(data: Data, at: int, stop: int) -> int:
    """The value of a number, as `walk` has found it."""
    return _varint(data, at, stop)[0]


def _compile(paths: list[tuple[Path, str]], bits: Mapping[str, int], id_mask: int) -> _Fields:
    fields: dict[int, _Field] = {}
    for number in {path[0] for path, _ in paths}:
        name = next((name for path, name in paths if path == (number,)), "")
        deeper = [(path[1:], each) for path, each in paths if path[0] == number and path[1:]]
        inner = _compile(deeper, bits, id_mask)
        kind = KINDS[name] if name else Kind.BYTES
        field = _Field(name, kind, bits.get(name, 0), inner, {}, id_mask if kind is Kind.ID else _MASK64)
        fields.update((number << 3 | wire_type, field) for wire_type in _WIRE_TYPES[kind])
    return fields


def _scan(  # noqa: C901 - one loop, and hot
    data: Data, at: int, stop: int, end: int, fields: _Fields, values: Values, left: int
) -> tuple[int, int, int]:
    """Read fields up to `stop`.

    :param left: how many there may be, with those of messages in them.
    :return: where the next one begins: before `stop` if more bytes are needed to read it, behind `stop` if
        the rest of the last one need not be read. The bits of those that were there; how many more may come.
    """
    # <hot> One round for each field; numbers of one byte, which nearly all are, are read inline.
    seen = 0
    while at < stop:
        if not left:
            raise MalformedError
        left -= 1
        begin = at
        tag = data[at]
        at += 1
        if not 8 <= tag < 0x80:
            tag, at = _tag(data, begin, stop)
        if tag & 7 == LENGTH and at < stop and (size := data[at]) < 0x80:
            at += 1
            after = at + size
        else:
            at, after = _extent(data, tag & 7, at, stop)
        if after < 0:
            return begin, seen, left
        if after > end:
            raise MalformedError
        if (field := fields.get(tag)) is not None:
            if after > stop and (field.kind is not _SIZE or field.inner):
                return begin, seen, left
            if field.kind is _SIZE:
                values.payload = after - at + (values.payload if seen & field.bit else 0)
            elif field.name:
                value = _value(data, tag & 7, at, after, field)
                if seen & field.bit:
                    _check_type(values, field.name, value)
                setattr(values, field.name, value)
            seen |= field.bit
            if field.inner:
                seen, left = _merge(bytes(data[at:after]), field, values, seen, left)
        at = after
    return at, seen, left


def _check_type(values: Values, name: str, value: int | str | bytes) -> None:
    """Refuse a field's second value if it is of another type."""
    if type(getattr(values, name)) is not type(value):
        raise MalformedError  # servers take one of the two, and the gateway cannot know which


def _value(data: Data, wire_type: int, at: int, after: int, field: _Field) -> int | str | bytes:
    if wire_type == _VARINT:
        return _varint(data, at, after)[0] & field.mask
    if field.kind is Kind.BYTES:
        return bytes(data[at:after])
    if after - at > _MAX_TEXT:
        raise MalformedError
    return str(data[at:after], "utf-8")


def _merge(message: bytes, field: _Field, values: Values, seen: int, left: int) -> tuple[int, int]:
    """Add what is in a message in the message; one that comes twice is merged, as decoders do.

    It is remembered, as such a message is often the same in every request of a producer.

    :param seen: the bits of the fields before it.
    :param left: how many more fields there may be.
    :return: both with those of the message.
    """
    cached = field.known.get(message)
    if cached is None:
        inner = Values()
        at, bits, rest = _scan(message, 0, len(message), len(message), field.inner, inner, left)
        if at != len(message):
            raise MalformedError
        cached = (bits, left - rest, vars(inner))
        if len(message) <= _MAX_KNOWN_BYTES:
            if len(field.known) >= _MAX_KNOWN:
                field.known.clear()
            field.known[message] = cached
    bits, count, attributes = cached
    if count > left:
        raise MalformedError
    if bits & seen:
        _merge_again(attributes, values)
    else:
        vars(values).update(attributes)
    return seen | bits, left - count


def _merge_again(attributes: Mapping[str, int | str | bytes], values: Values) -> None:
    """Add what is in a message of which there was one before."""
    for name in attributes.keys() & vars(values).keys():
        _check_type(values, name, attributes[name])
    payload = values.payload
    vars(values).update(attributes)
    if "payload" in attributes:
        values.payload += payload


def _tag(data: Data, at: int, stop: int) -> tuple[int, int]:
    """A tag of any length and where it ends; one with a wire type that needs more bytes if it is cut off."""
    tag, at = _varint(data, at, stop)
    if tag < 0:
        return LENGTH, stop
    if not 8 <= tag <= _MAX_TAG:
        raise MalformedError
    return tag, at


def _extent(data: Data, wire_type: int, at: int, stop: int) -> tuple[int, int]:
    """Where the value of a field begins whose tag ends at `at`, and where it ends: -1 if not known yet."""
    # <hot> Numbers and lengths of more than one byte; what `_varint` does stands here inline.
    if wire_type in _COUNTED:
        begin, value, shift = at, 0, 0
        while at < stop:
            byte = data[at]
            at += 1
            if byte < 0x80:
                return (begin, at) if wire_type == _VARINT else (at, at + (value | byte << shift))
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > _MAX_SHIFT:
                raise MalformedError
        return at, -1
    if wire_type not in (_FIXED64, _FIXED32):
        # Groups were deprecated before gRPC existed; a reader that skips unknown wire types can be bypassed.
        raise MalformedError
    after = at + (8 if wire_type == _FIXED64 else 4)
    return at, after if after <= stop else -1


def _varint(data: Data, at: int, stop: int) -> tuple[int, int]:
    """A number and where it ends; -1 if more bytes are needed."""
    value = shift = 0
    last = at + _MAX_VARINT
    while at < stop:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        if at >= last:
            raise MalformedError
        shift += 7
    return -1, at
