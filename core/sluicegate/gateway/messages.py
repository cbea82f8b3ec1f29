"""Messages between supervisor and workers over a local socket: JSON objects after their length."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from sluicegate.config.units import Address
from sluicegate.model import Level, PolicyLayer, PolicySet, Setting, Source

_LENGTH_BYTES = 4
_MAX_BYTES = 256 * 1024 * 1024


class BrokenMessageError(Exception):
    """The other side sent something else."""


async def receive(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; None when the other side has ended.

    :raises BrokenMessageError: if it is not a message.
    """
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
        if length > _MAX_BYTES:
            raise BrokenMessageError(f"message of {length!r} bytes, expected at most {_MAX_BYTES}")
        data = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    try:
        message = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BrokenMessageError(f"message that is no JSON: {error}") from error
    if not isinstance(message, dict):
        raise BrokenMessageError(f"message {message!r}, expected an object")
    return message


def send(writer: asyncio.StreamWriter, kind: str, **content: object) -> None:
    """Send a message; what a dead peer does not accept is lost.

    :param kind: what it is about; the receiver finds it under `kind`.
    :param content: the rest; must be JSON.
    """
    data = orjson.dumps({"kind": kind, **content}, option=orjson.OPT_NON_STR_KEYS)
    if not writer.is_closing():
        writer.write(len(data).to_bytes(_LENGTH_BYTES) + data)


def policies_to_json(policies: PolicySet) -> dict[str, object]:
    """Policies as JSON."""
    return {
        "version": policies.version,
        "observe_only": policies.observe_only,
        "exempt_principals": sorted(policies.exempt_principals),
        "exempt_policies": sorted(policies.exempt_policies),
        "layers": [
            {
                "level": layer.level,
                "name": layer.name,
                "settings": _settings_to_json(layer.settings),
                "ceilings": _settings_to_json(layer.ceilings),
            }
            for layer in policies.layers
        ],
    }


def policies_from_json(data: Mapping[str, Any]) -> PolicySet:
    """Policies from what `policies_to_json` made.

    :raises BrokenMessageError: if it is something else.
    """
    try:
        return PolicySet(
            version=data["version"],
            observe_only=data["observe_only"],
            exempt_principals=frozenset(data["exempt_principals"]),
            exempt_policies=frozenset(data["exempt_policies"]),
            layers=tuple(
                PolicyLayer(
                    Level(layer["level"]),
                    layer["name"],
                    _settings_from_json(layer["settings"]),
                    _settings_from_json(layer["ceilings"]),
                )
                for layer in data["layers"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenMessageError(f"policies that cannot be read: {error!r}") from error


def config_to_json(value: object) -> Any:
    """A configuration model as JSON that its own class reads again, subclasses and addresses included."""
    if isinstance(value, BaseModel):
        return {name: config_to_json(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Address):
        return str(value)
    if isinstance(value, tuple | list | frozenset | set):
        return [config_to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {name: config_to_json(item) for name, item in value.items()}
    return value


def _settings_to_json(settings: Mapping[str, Setting]) -> dict[str, list[object]]:
    return {
        name: [setting.value, setting.source, setting.location, setting.locked]
        for name, setting in settings.items()
    }


def _settings_from_json(data: Mapping[str, Any]) -> dict[str, Setting]:
    return {
        name: Setting(value, Source(source), location, locked)
        for name, (value, source, location, locked) in data.items()
    }
