"""Encodes settings and their history as keys and values of a metadata store."""

import json
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from sluicegate.model import Level
from sluicegate.store.policy_store import Change, Row

_LEVELS = {level.label: level for level in Level}


def setting_key(level: Level, name: str, field: str) -> str:
    """The key of one setting, below the prefix of all settings."""
    return f"set/{level.label}/{quote(name, safe='')}/{quote(field, safe='')}"


def encoded_row(row: Row) -> bytes:
    """Encode a setting as JSON."""
    return _dumps(asdict(row))


def decoded_row(text: bytes) -> Row:
    """Decode a setting.

    :raises ValueError: if the text is not a setting.
    """
    found = _loads(text)
    value, version = found.get("value"), found.get("version")
    if not isinstance(value, int | float | str) or isinstance(version, bool) or not isinstance(version, int):
        raise ValueError("it has no value, or no version")
    return Row(_level(found), str(found.get("name", "")), _field(found), value, version)


def encoded_change(change: Change) -> bytes:
    """Encode a history entry as JSON."""
    return _dumps(asdict(change))


def decoded_change(text: bytes) -> Change:
    """Decode a history entry.

    :raises ValueError: if the text is not a history entry.
    """
    found = _loads(text)
    value = found.get("value")
    if value is not None and not isinstance(value, int | float | str):
        raise ValueError("its value is not a policy value")
    try:
        version = int(str(found["version"]))
    except KeyError:
        raise ValueError("it has no version") from None
    name, actor, at = (str(found.get(key, "")) for key in ("name", "actor", "at"))
    return Change(version, _level(found), name, _field(found), value, actor, at)


def _dumps(fields: dict[str, Any]) -> bytes:
    return json.dumps({**fields, "level": fields["level"].label}).encode()


def _loads(text: bytes) -> dict[str, object]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _level(found: dict[str, object]) -> Level:
    level = _LEVELS.get(str(found.get("level")))
    if level is None:
        raise ValueError(f"its level is not one of {', '.join(_LEVELS)}")
    return level


def _field(found: dict[str, object]) -> str:
    field = found.get("field")
    if not isinstance(field, str) or not field:
        raise ValueError("it has no field")
    return field
