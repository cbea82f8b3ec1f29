"""Encodes settings and their history as keys and values of a metadata store."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from sluicegate.model import LEVELS, Level, PolicyValue
from sluicegate.store.policy_store import Author, Change, Key, Revision, Row


def setting_key(key: Key) -> str:
    """The key of one setting, below the prefix of all settings."""
    parts = (key.name, key.field, key.broker)
    return "/".join(["set", key.level.label, *(quote(part, safe="") for part in parts)])


def encoded_row(row: Row) -> bytes:
    """Encode a setting as JSON."""
    return _dumps({**_key_json(row.key), "value": row.value, "version": row.version})


def decoded_row(text: bytes) -> Row:
    """Decode a setting.

    :raises ValueError: if the text is not a setting.
    """
    fields = _loads(text)
    value, version = fields.get("value"), fields.get("version")
    if not isinstance(value, int | float | str) or isinstance(version, bool) or not isinstance(version, int):
        raise ValueError("it has no value, or no version")
    return Row(_key(fields), value, version)


def encoded_revision(revision: Revision) -> bytes:
    """Encode a history entry as JSON."""
    changes = [{**_key_json(each.key), "old": each.old, "new": each.new} for each in revision.changes]
    kept = {"number": revision.number, "at": revision.at, **revision.author._asdict(), "changes": changes}
    return _dumps({**kept, "policies": revision.policies, "is_of_file": revision.is_of_file})


def decoded_revision(text: bytes) -> Revision:
    """Decode a history entry.

    :raises ValueError: if the text is not a history entry.
    """
    fields = _loads(text)
    changes = fields.get("changes")
    if not isinstance(changes, list):
        raise ValueError("it has no changes")
    try:
        number = int(str(fields["number"]))
    except KeyError:
        raise ValueError("it has no number") from None
    actor, reason, at, policies = (str(fields.get(key, "")) for key in ("actor", "reason", "at", "policies"))
    decoded = tuple(_change(each) for each in changes)
    return Revision(number, Author(actor, reason), at, decoded, policies, bool(fields.get("is_of_file")))


def _change(row: object) -> Change:
    if not isinstance(row, dict):
        raise ValueError("a change of it is not a JSON object")
    return Change(_key(row), _value(row.get("old")), _value(row.get("new")))


def _value(value: object) -> PolicyValue | None:
    if value is not None and not isinstance(value, int | float | str):
        raise ValueError("its value is not a policy value")
    return value


def _key_json(key: Key) -> dict[str, object]:
    scope = {"scope": key.scope} if key.scope else {}
    return {"level": key.level.label, "name": key.name, "field": key.field, "broker": key.broker, **scope}


def _key(fields: Mapping[str, object]) -> Key:
    name, broker, scope = (str(fields.get(part, "")) for part in ("name", "broker", "scope"))
    return Key(_level(fields), name, _field(fields), broker, scope)


def _dumps(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def _loads(text: bytes) -> dict[str, object]:
    try:
        fields = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("it is not a JSON object")
    return fields


def _level(fields: Mapping[str, object]) -> Level:
    level = LEVELS.get(str(fields.get("level")))
    if level is None:
        raise ValueError(f"its level is not one of {', '.join(LEVELS)}")
    return level


def _field(fields: Mapping[str, object]) -> str:
    field = fields.get("field")
    if not isinstance(field, str) or not field:
        raise ValueError("it has no field")
    return field
