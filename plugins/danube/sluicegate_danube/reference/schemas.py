"""The schema registry: subjects, each with an id and its versions."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson
from grpc import StatusCode

from sluicegate_danube.reference.broker_errors import RefusedError

MODES = ("none", "backward", "forward", "full")
"""Which readers must understand which data: none, new readers old data, old readers new data, both."""
TYPES = ("avro", "json_schema", "protobuf", "bytes", "string", "number")
_JSON_TYPES = ("avro", "json_schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a schema."""

    number: int
    definition: bytes
    description: str
    created_by: str
    created_at: int
    """Seconds since the epoch."""
    tags: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the definition."""
        return f"sha256:{hashlib.sha256(self.definition).hexdigest()}"


@dataclass(slots=True, kw_only=True)
class Subject:
    """A named schema. All its versions share its id."""

    schema_id: int
    name: str
    schema_type: str
    mode: str = "backward"
    versions: dict[int, Version] = field(default_factory=dict)

    @property
    def latest(self) -> Version:
        """The newest version."""
        return self.versions[max(self.versions)]

    def find(self, definition: bytes) -> Version | None:
        """The version that has this definition."""
        return next((each for each in self.versions.values() if each.definition == definition), None)


class Schemas:
    """All subjects of a cluster.

    :param limit: versions that all of them may have.
    """

    def __init__(self, limit: int) -> None:
        self._subjects: dict[str, Subject] = {}
        self._limit = limit
        self._made = 0

    def find(self, name: str) -> Subject | None:
        """A subject by its name."""
        return self._subjects.get(name)

    def subject(self, name: str) -> Subject:
        """A subject by its name.

        :raises RefusedError: if there is none.
        """
        subject = self._subjects.get(name)
        if subject is None:
            raise RefusedError(StatusCode.NOT_FOUND, f"Subject not found: {name}")
        return subject

    def by_id(self, schema_id: int) -> Subject:
        """A subject by its id.

        :raises RefusedError: if there is none.
        """
        for subject in self._subjects.values():
            if subject.schema_id == schema_id:
                return subject
        raise RefusedError(StatusCode.NOT_FOUND, f"Schema not found: {schema_id}")

    def for_new_version(self, name: str, schema_type: str, definition: bytes) -> Subject:
        """The subject to which a new version may be added; it is created if there is none.

        :raises RefusedError: if the definition is not compatible, or if there is no room.
        """
        errors = self.incompatibilities(name, schema_type, definition)
        if errors:
            text = f"Failed to register schema: {'; '.join(errors)}"
            raise RefusedError(StatusCode.INTERNAL, text)
        if self._made >= self._limit:
            text = f"the reference broker has room for {self._limit} versions of schemas"
            raise RefusedError(StatusCode.RESOURCE_EXHAUSTED, text)
        self._made += 1
        made = Subject(schema_id=len(self._subjects) + 1, name=name, schema_type=schema_type)
        return self._subjects.setdefault(name, made)

    def incompatibilities(self, name: str, schema_type: str, definition: bytes, mode: str = "") -> list[str]:
        """Incompatibilities of a new version. Of the six types only Avro's records are compared.

        :param mode: the subject's own if empty.
        """
        if schema_type not in TYPES:
            return [f"{schema_type!r} is not one of {', '.join(TYPES)}"]
        new = _read(schema_type, definition)
        if new is None:
            return [f"the definition is not JSON, as {schema_type} requires"]
        subject = self._subjects.get(name)
        mode = mode or (subject.mode if subject is not None else "none")
        if subject is None or mode == "none":
            return []
        if subject.schema_type != schema_type:
            return [f"{name} is {subject.schema_type}, not {schema_type}"]
        old = _read(schema_type, subject.latest.definition) or {}
        errors = []
        if mode in ("backward", "full"):
            errors += [f"new field {each!r} has no default" for each in _lacking(old, new)]
        if mode in ("forward", "full"):
            errors += [f"field {each!r} had no default and is gone" for each in _lacking(new, old)]
        return errors


def _read(schema_type: str, definition: bytes) -> Mapping[str, object] | None:
    """A definition's outermost object; empty where there is none, None if it cannot be read."""
    if schema_type not in _JSON_TYPES:
        return {}
    try:
        value = orjson.loads(definition)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else {}


def _lacking(writer: Mapping[str, object], reader: Mapping[str, object]) -> list[str]:
    """Fields of an Avro record that a reader requires and a writer lacks, without a default."""
    given = {str(each["name"]) for each in _fields(writer)}
    wanted = (each for each in _fields(reader) if "default" not in each)
    return [str(each["name"]) for each in wanted if str(each["name"]) not in given]


def _fields(schema: Mapping[str, object]) -> list[Mapping[str, object]]:
    fields = schema.get("fields")
    return (
        [each for each in fields if isinstance(each, dict) and "name" in each]
        if isinstance(fields, list)
        else []
    )
