"""Reads the messages of a publish for policies that want to see them, and changes their headers."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, TypeAlias

from sluicegate.model import HeaderChange, Message, Method, Part, Path
from sluicegate.model.message import message_of
from sluicegate_grpc.semantics.fields import LENGTH, MAX_FIELDS, MalformedError, occurrences, varint, walk

MAX_MESSAGES: Final = 20_000
"""Messages of one request that are read."""
_NAME, _VALUE = 1 << 3 | LENGTH, 2 << 3 | LENGTH
"""Tags of a map's entries."""
_LEAST_ENTRY = 4
"""Bytes of an entry with neither a name nor a value."""
_MALFORMED: Final = (MalformedError, UnicodeDecodeError)
"""What reading a message raises that is none."""
_SHORT = 0x7F
"""The longest field whose length is one byte."""
_HEADERS: Final = Part.HEADERS  # Python 3.11 takes 50 ns to look a member up


class Contents(NamedTuple):
    """What policies see of a publish."""

    messages: list[Message]
    unreadable: str = ""
    """Why they cannot be read."""
    fields: int = 0
    """How many fields were looked at."""


ReadContents: TypeAlias = Callable[[Collection[Part]], Contents]
"""Reads these parts of a publish's messages."""


class CannotChangeError(Exception):
    """Headers cannot be changed; its text says why."""


class _Node(NamedTuple):
    """A field that is in a path."""

    part: Part | None
    """What it is; None if only something inside it is wanted."""
    inner: "_Nodes"
    """Fields of the message in it."""


_Nodes: TypeAlias = Mapping[int, _Node]
"""By field number."""


class _Reading:
    """One message's parts, while its fields are walked over."""

    __slots__ = ("headers", "key", "left", "schema", "value")

    def __init__(self, left: int) -> None:
        self.headers: dict[str, bytes] = {}
        self.key: bytes | None = None
        self.schema = ""
        self.value: bytes | None = None
        self.left = left

    def look(self, data: bytes, at: int, stop: int, nodes: _Nodes) -> None:
        """Take in the fields of a message, or of one in it; of a field that comes twice, the last.

        :raises MalformedError: if it cannot be read, or if servers could read something else.
        """
        # <hot> One round for each field; short ones, as nearly all are, are found without a call.
        while at < stop:
            self.left -= 1
            if self.left < 0:
                raise MalformedError
            tag, value = data[at], at + 2
            if tag & 0x87 == LENGTH and tag > LENGTH and value <= stop and (size := data[at + 1]) <= _SHORT:
                at = value + size
                if at > stop:
                    raise MalformedError
            else:
                tag, _, value, at = next(walk(data, at, stop))
            node = nodes.get(tag >> 3)
            if node is None:
                continue
            if node.part is not None:
                self._take(node.part, tag & 7, data, value, at)
            if node.inner and tag & 7 == LENGTH:
                self.look(data, value, at, node.inner)

    def _take(self, part: Part, wire_type: int, data: bytes, at: int, stop: int) -> None:
        if wire_type != LENGTH:
            if part is Part.SCHEMA and wire_type == 0:
                self.schema = str(varint(data, at, stop) or "")
        elif part is _HEADERS:
            name, value, fields = _entry(data, at, stop)
            self.left -= fields
            self.headers[name] = value
        elif part is Part.SCHEMA:
            self.schema = str(data[at:stop], "utf-8")
        elif part is Part.KEY:
            self.key = data[at:stop]
        elif self.value is None:
            self.value = data[at:stop]
        else:  # a server takes the last one, or merges them: that depends on its type
            raise MalformedError


class ContentPlan:
    """How to read the messages of a method's requests."""

    __slots__ = ("_batch", "_headers", "_nodes", "_paths")

    def __init__(self, method: Method) -> None:
        skip = len(method.batch)
        self._batch = method.batch[0] if method.batch else 0
        self._headers = method.headers[skip:]
        self._paths = {
            Part.HEADERS: self._headers,
            Part.KEY: method.key[skip:],
            Part.SCHEMA: method.schema[skip:],
            Part.VALUE: method.payload[skip:],
        }
        self._nodes: dict[frozenset[Part], _Nodes] = {}

    def read(self, data: bytes, parts: Collection[Part]) -> Contents:
        """Read these parts of all messages.

        :param data: a whole request, decompressed.
        """
        wanted = frozenset(parts)
        nodes = self._nodes.get(wanted)
        if nodes is None:
            nodes = self._nodes[wanted] = _tree([(self._paths[part], part) for part in wanted])
        left = MAX_FIELDS
        messages: list[Message] = []
        try:
            if not self._batch:
                message, left = _read(data, 0, len(data), nodes, left)
                return Contents([message], "", MAX_FIELDS - left)
            for begin, stop in occurrences(data, 0, len(data), self._batch << 3 | LENGTH):
                if len(messages) == MAX_MESSAGES:
                    why = f"more than {MAX_MESSAGES} in one request, of which no more are read"
                    return Contents([], why, MAX_FIELDS - left)
                message, left = _read(data, begin, stop, nodes, left)
                messages.append(message)
        except _MALFORMED:
            return Contents([], "they are malformed, or have too many fields", MAX_FIELDS)
        return Contents(messages, "", MAX_FIELDS - left)

    def changed(self, data: bytes, change: HeaderChange) -> bytes:
        """A request with other headers in each message; all else is the same, byte for byte.

        :param data: a whole request that was read.
        :raises CannotChangeError: if its messages have no headers that could be set, or it cannot be read.
        """
        if not self._headers:
            if change.set:
                raise CannotChangeError("messages of this method have no headers")
            return data
        added = b"".join(_field(self._headers[-1], _encoded(*header)) for header in change.set.items())
        dropped = change.remove | change.set.keys()
        try:
            if not self._batch:
                return _changed(data, self._headers, dropped, added)
            return _each(data, self._batch, self._headers, dropped, added)
        except _MALFORMED:
            raise CannotChangeError("the message is malformed") from None


def _read(data: bytes, begin: int, stop: int, nodes: _Nodes, left: int) -> tuple[Message, int]:
    """A message, and how many more fields there may be."""
    reading = _Reading(left)
    reading.look(data, begin, stop, nodes)
    headers = tuple(reading.headers.items())
    return message_of((headers, reading.key, reading.schema, reading.value or b"")), reading.left


def _tree(paths: list[tuple[Path, Part]]) -> _Nodes:
    nodes: dict[int, _Node] = {}
    for number in {path[0] for path, _ in paths if path}:
        part = next((part for path, part in paths if path == (number,)), None)
        inner = [(path[1:], part) for path, part in paths if path[:1] == (number,)]
        nodes[number] = _Node(part, _tree(inner))
    return nodes


def _entry(data: bytes, at: int, stop: int) -> tuple[str, bytes, int]:
    """An entry of a map: its key and its value; how many fields it has."""
    # <hot> As encoders write it, both of them short and in this order: found without a walk.
    if stop - at >= _LEAST_ENTRY and data[at] == _NAME and (name_size := data[at + 1]) <= _SHORT:
        middle = at + 2 + name_size
        if middle + 2 <= stop and data[middle] == _VALUE and data[middle + 1] == stop - middle - 2 <= _SHORT:
            return str(data[at + 2 : middle], "utf-8"), data[middle + 2 : stop], 2
    name, value, fields = b"", b"", 0
    for tag, _, begin, after in walk(data, at, stop):
        fields += 1
        if tag == _NAME:
            name = data[begin:after]
        elif tag == _VALUE:
            value = data[begin:after]
    return str(name, "utf-8"), value, fields


def _each(data: bytes, batch: int, path: Path, dropped: Collection[str], added: bytes) -> bytes:
    """Change the headers of all messages of a batch."""
    out = bytearray()
    for tag, begin, value, after in walk(data, 0, len(data)):
        if tag == batch << 3 | LENGTH:
            out += _instead(data, begin, value, after, _changed(data[value:after], path, dropped, added))
        else:
            out += data[begin:after]
    return bytes(out)


def _changed(message: bytes, path: Path, dropped: Collection[str], added: bytes) -> bytes:
    """Drop entries of the map at a path, and append others.

    :param added: these, encoded.
    """
    out = bytearray()
    number, deeper = path[0], path[1:]
    for tag, begin, value, after in walk(message, 0, len(message)):
        if tag != number << 3 | LENGTH:
            out += message[begin:after]
        elif deeper:
            # A message that comes in parts is one: what is added belongs into one of them.
            inner = message[value:after]
            out += _instead(message, begin, value, after, _changed(inner, deeper, dropped, added))
            added = b""
        elif _entry(message, value, after)[0] not in dropped:
            out += message[begin:after]
    if added:
        for each in reversed(path[:-1]):
            added = _field(each, added)
        out += added
    return bytes(out)


def _instead(data: bytes, begin: int, value: int, after: int, content: bytes) -> bytes:
    """A field with another content; the same bytes if it is the same."""
    if content == data[value:after]:
        return data[begin:after]
    tag = next(walk(data, begin, after))[0]
    return _number(tag) + _number(len(content)) + content


def _encoded(name: str, value: bytes) -> bytes:
    """An entry of a map."""
    return _field(1, name.encode()) + _field(2, value)


def _field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | LENGTH) + _number(len(content)) + content


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
