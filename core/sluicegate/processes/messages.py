"""Messages between supervisor and workers over a local socket: JSON objects after their length."""

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from sluicegate.config.units import Address
from sluicegate.model import PolicySet

_LENGTH_BYTES = 4
_MAX_BYTES = 256 * 1024 * 1024
_POLICIES = TypeAdapter(PolicySet)
_POLICY_FIELDS = {field.name for field in fields(PolicySet)}


class BrokenMessageError(Exception):
    """The peer sent no valid message."""


async def receive(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next message; None when the other side has ended.

    :raises BrokenMessageError: if it is not a message.
    """
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
        # No sender writes that: the stream is out of step, and what follows cannot be told apart.
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
    """Send a message; what a dead peer does not accept is lost."""
    data = encode(kind, **content)
    if not writer.is_closing():
        writer.write(len(data).to_bytes(_LENGTH_BYTES) + data)


def encode(kind: str, **content: object) -> bytes:
    """A message, without its length.

    :param kind: kind of message; the receiver finds it under `kind`.
    :param content: the rest: JSON, policy sets and configuration models.
    """
    return orjson.dumps({"kind": kind, **content}, default=_plain, option=orjson.OPT_NON_STR_KEYS)


def _plain(value: object) -> object:
    """Convert values that orjson cannot encode."""
    if isinstance(value, BaseModel):
        return dict(value)
    if isinstance(value, Address):
        return str(value)
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


def policies_from_json(data: Mapping[str, Any]) -> PolicySet:
    """A policy set from a message.

    :raises BrokenMessageError: if it is something else.
    """
    if not data.keys() >= _POLICY_FIELDS:  # defaults must never take the place of policies
        raise BrokenMessageError(f"policies with only {', '.join(data) or 'nothing'}")
    try:
        return _POLICIES.validate_python(data)
    except ValidationError as error:
        raise BrokenMessageError(f"policies that cannot be read: {error}") from error
