"""Method maps are checked when they are loaded: a wrong one would be a limit that does not hold.

What a map says by itself is checked always. Names, fields and types are checked where the descriptor of a
service is at hand: given, or in protobuf's default pool, which generated modules fill when they are imported.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor, ServiceDescriptor

from sluicegate.model import Method, MethodMap, Path, Role
from sluicegate_grpc.semantics.fields import IN_RESPONSE, KINDS, Kind

_NAME = re.compile(r"/(?P<service>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*)/(?P<method>[A-Za-z_]\w*)", re.ASCII)
_MAX_FIELD = 2**29 - 1
_SHOWN = 12


class _Rule(NamedTuple):
    """What a method of a role may say."""

    takes: frozenset[str]
    one_of: tuple[frozenset[str], ...] = ()
    """Of each set at least one."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RULES: Final[Mapping[Role, _Rule]] = {
    Role.ATTACH_PRODUCER: _Rule(_names("topic producer reliable attachment"), (_names("topic"),)),
    Role.SUBSCRIBE: _Rule(_names("topic subscription consumer attachment"), (_names("topic"),)),
    Role.PUBLISH: _Rule(
        _names("topic producer name payload batch published headers key schema"), (_names("topic producer"),)
    ),
    Role.DISPATCH: _Rule(
        _names("topic subscription consumer payload position published message_topic message_subscription"),
        (_names("topic consumer"),),
    ),
    Role.ACKNOWLEDGE: _Rule(
        _names("topic subscription consumer position"), (_names("topic consumer"), _names("position"))
    ),
    Role.KEEP_ALIVE: _Rule(_names("attachment"), (_names("attachment"),)),
    Role.DETACH: _Rule(
        _names("topic attachment producer consumer"), (_names("attachment producer consumer"),)
    ),
    Role.LOOKUP: _Rule(_names("topic"), (_names("topic"),)),
    Role.PASS: _Rule(frozenset()),
}
_CONTENTS: Final[Mapping[str, Kind]] = {"headers": Kind.BYTES, "key": Kind.BYTES, "schema": Kind.ID}
"""Paths that are read for policies only."""
_KINDS: Final[Mapping[str, Kind]] = {**KINDS, **_CONTENTS}
_PATHS: Final = (*_KINDS, "batch")
_IN_BATCH: Final = ("payload", *_CONTENTS)
_F: Final[Any] = FieldDescriptor
_INTEGERS: Final = frozenset({_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64})
_SIGNED: Final = frozenset({_F.TYPE_SINT32, _F.TYPE_SINT64})
_SHORT: Final = frozenset({_F.TYPE_INT32, _F.TYPE_UINT32, _F.TYPE_SINT32})
_TYPES: Final[Mapping[Kind, tuple[frozenset[int], str]]] = {
    Kind.TEXT: (frozenset({_F.TYPE_STRING}), "a string"),
    Kind.ID: (_INTEGERS | _SIGNED | {_F.TYPE_STRING}, "a string or an integer"),
    Kind.NUMBER: (_INTEGERS | {_F.TYPE_BOOL, _F.TYPE_ENUM}, "an integer, a bool or an enum"),
    Kind.SIZE: (frozenset({_F.TYPE_BYTES, _F.TYPE_STRING, _F.TYPE_MESSAGE}), "bytes, a string or a message"),
    Kind.BYTES: (
        _INTEGERS | _SIGNED | {_F.TYPE_STRING, _F.TYPE_BYTES, _F.TYPE_MESSAGE},
        "an integer, a string, bytes or a message",
    ),
}
"""Types whose encoding `fields` reads; of integers those that are varints."""


class MethodMapError(ValueError):
    """A method map by which some limit would not hold.

    :param system: of the map.
    :param mistakes: all of them.
    """

    def __init__(self, system: str, mistakes: list[str]) -> None:
        super().__init__(f"method map of {system!r}: " + "; ".join(mistakes))
        self.mistakes = mistakes


def check(methods: MethodMap, services: Iterable[ServiceDescriptor] = ()) -> None:
    """See whether a map can mean what it says.

    :param services: descriptors of its services; others are looked for in protobuf's default pool.
    :raises MethodMapError: if not; it names method, key, value and remedy of each mistake.
    """
    given = {service.full_name: service for service in services}
    mistakes = [
        f"{name}: {mistake}"
        for name, method in methods.methods.items()
        for mistake in (*_alone(name, method, methods), *_against(name, method, given))
    ]
    if mistakes:
        raise MethodMapError(methods.system, mistakes)


def wrong_shape(role: Role, *, response_streaming: bool) -> str:
    """Why a method of this shape cannot have a role; empty if it can."""
    if role is Role.DISPATCH and not response_streaming:
        return "has the role DISPATCH, but does not stream its responses"
    if role in (Role.ATTACH_PRODUCER, Role.SUBSCRIBE) and response_streaming:
        return (
            "streams its responses, which has the role DISPATCH; give that the topic and the subscription "
            "too, and the consumer is there for as long as the stream"
        )
    return ""


def _paths(method: Method) -> dict[str, Path]:
    return {key: path for key in _PATHS if (path := getattr(method, key))}


# -- what a map says by itself ------------------------------------------------------------------------------


def _alone(name: str, method: Method, methods: MethodMap) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield f"expected a name such as '/package.Service/Method', got {name!r}"
    paths, rule = _paths(method), _RULES[method.role]
    for key in sorted(set(paths) - rule.takes):
        yield f"{key}={paths[key]}: role {method.role.name} has no {key}; take it out, or give another role"
    for wanted in rule.one_of:
        if not wanted & set(paths):
            yield f"role {method.role.name} lacks {' or '.join(sorted(wanted))}; give the path of its field"
    if method.role in (Role.PUBLISH, Role.DISPATCH) and not method.payload and method.size_of == "payload":
        yield "no payload, so the size is unknown; give its path, or size_of='message'"
    for key, path in paths.items():
        if not all(0 < number <= _MAX_FIELD for number in path):
            yield f"{key}={path}: field numbers are from 1 to {_MAX_FIELD}"
    yield from _twice(method, paths)
    yield from _batched(method, paths)
    yield from _ids(method, methods)


def _twice(method: Method, paths: Mapping[str, Path]) -> Iterator[str]:
    """Find fields with two meanings: only one of them would be read."""
    names: dict[tuple[bool, Path], str] = {}
    for key, path in paths.items():
        place = (key in IN_RESPONSE.get(method.role, ()), path)
        if place in names:
            yield f"{key}={path}: that is {names[place]} already; give each a field of its own"
        names.setdefault(place, key)


def _batched(method: Method, paths: Mapping[str, Path]) -> Iterator[str]:
    batch = method.batch
    if batch and len(batch) != 1:
        yield f"batch={batch}: expected one number, of a repeated field of the request"
    for key in _IN_BATCH:
        path = paths.get(key, ())
        if batch and path and (len(path) < 2 or path[0] != batch[0]):
            yield f"{key}={path}: expected a path through the messages of the batch, {(*batch, 1)} or so"
    for key in sorted(set(paths) - {"batch", *_IN_BATCH}):
        if batch and paths[key][0] == batch[0]:
            yield f"{key}={paths[key]}: it is in the messages of the batch, of which there are many"
    if method.by_connection and (method.role is not Role.PUBLISH or method.producer or not method.topic):
        yield "by_connection=True: only for PUBLISH with a topic and without a producer"


def _ids(method: Method, methods: MethodMap) -> Iterator[str]:
    """Ids that no response gives out are never known."""
    roles = {each.role for each in methods.methods.values()}
    if method.role is Role.PUBLISH and not method.topic and Role.ATTACH_PRODUCER not in roles:
        yield "no topic, and no method of role ATTACH_PRODUCER that gives producers ids; give one of both"
    if method.role is Role.DISPATCH and not method.topic and Role.SUBSCRIBE not in roles:
        yield "no topic, and no method of role SUBSCRIBE that gives consumers ids; give one of both"
    if bool(method.message_topic) != bool(method.message_subscription):
        yield "message_topic and message_subscription identify a consumer together; give both or none"
    if method.message_topic and method.topic:
        yield f"message_topic={method.message_topic}: only for DISPATCH by the id of a consumer; take it out"
    if method.name and not (method.producer and method.topic and Role.ATTACH_PRODUCER in roles):
        yield f"name={method.name}: only for PUBLISH with a topic by the id of a producer; name the id too"


# -- what its descriptor says -------------------------------------------------------------------------------


def _against(name: str, method: Method, given: Mapping[str, ServiceDescriptor]) -> Iterator[str]:
    parts = _NAME.fullmatch(name)
    service = _service(parts["service"], given) if parts is not None else None
    if parts is None or service is None or not method.is_policed:
        return  # what passes may be of a later version than the descriptor
    described = service.methods_by_name.get(parts["method"])
    if described is None:
        yield f"{_file(service)} has no such method; {_rather(parts['method'], service.methods_by_name)}"
        return
    shape = wrong_shape(method.role, response_streaming=described.server_streaming)
    if shape:
        yield f"{shape} ({_file(service)})"
    for key, path in _paths(method).items():
        mistake = _field(method, key, path, described)
        if mistake:
            yield f"{key}={path}: {mistake} ({_file(service)})"


def _service(name: str, given: Mapping[str, ServiceDescriptor]) -> ServiceDescriptor | None:
    if name in given:
        return given[name]
    try:
        return descriptor_pool.Default().FindServiceByName(name)
    except KeyError:
        return None


def _file(service: ServiceDescriptor) -> str:
    return f"service {service.full_name} of {service.file.name}"


def _field(method: Method, key: str, path: Path, described: MethodDescriptor) -> str:
    """What is wrong with a path; empty if nothing is."""
    in_response = key in IN_RESPONSE.get(method.role, ())
    message: Descriptor | None = described.output_type if in_response else described.input_type
    field: Any = None
    for depth, number in enumerate(path, 1):
        if message is None:
            return f"{field.full_name} is not a message and has no fields; end the path there"
        field = message.fields_by_number.get(number)
        if field is None:
            return f"message {message.full_name} has no field {number}; {_fields_of(message)}"
        is_batch = bool(method.batch) and path[:depth] == method.batch
        if key == "headers" and depth == len(path):
            return _no_map(field)
        if field.is_repeated and not is_batch:
            return f"{field.full_name} is repeated, so its value is ambiguous; name a single field"
        if is_batch and (not field.is_repeated or field.message_type is None):
            return f"{field.full_name} holds no batch; name a repeated field of messages"
        message = field.message_type if field.type == _F.TYPE_MESSAGE else None
    if key == "batch":
        return ""
    if key == "key" and field.type not in (_F.TYPE_STRING, _F.TYPE_BYTES):
        return f"{field.full_name} is of another type; name a string or bytes"
    types, words = _TYPES[_KINDS[key]]
    if field.type not in types:
        return f"{field.full_name} is of another type; name {words} that is not of a fixed size"
    return _id_width(method, field) if KINDS.get(key) is Kind.ID else ""


def _no_map(field: Any) -> str:
    """Why a field holds no headers; empty if it does."""
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        name, value = (entry.fields_by_number[number].type for number in (1, 2))
        if name == _F.TYPE_STRING and value in (_F.TYPE_STRING, _F.TYPE_BYTES):
            return ""
    return f"{field.full_name} is no map of strings or of bytes by strings"


def _id_width(method: Method, field: Any) -> str:
    """Why servers read an id otherwise, so that it would seem to be unknown; empty if they do not."""
    if field.type in _SHORT and method.id_bits != 32:
        return f"{field.full_name} has 32 bits, and servers take those of a larger number; say id_bits=32"
    if field.type in (_INTEGERS | _SIGNED) - _SHORT and method.id_bits != 64:
        return f"{field.full_name} has 64 bits; take out id_bits=32"
    return ""


def _fields_of(message: Descriptor) -> str:
    fields = [f"{field.number} ({field.name})" for field in message.fields[:_SHOWN]]
    return f"it has {', '.join(fields)}" if fields else "it has none"


def _rather(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, 1)
    return f"did you mean {close[0]!r}?" if close else f"it has {', '.join(names[:_SHOWN])}"
