"""Asks the running gateway what holds for a topic, faster than reading the file; it imports little."""

import json
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlencode

import click

from sluicegate.admin import EFFECTIVE_POLICIES
from sluicegate.admin.running_note import RunningNote, digest_of, file_mark

_PATIENCE_S = 5.0
"""Longest wait for the gateway; it answers in milliseconds."""
_LARGEST = 4 << 20
"""Bytes of an answer."""


class Answer(NamedTuple):
    """What the running gateway says."""

    explained: dict[str, Any] | None
    """As from `runtime.effective`, with `process`; None if the gateway does not answer."""
    reason: str = ""
    """Why it does not."""
    differs: bool = False
    """Whether the file is another one than the gateway has in force."""


def ask(note: RunningNote, text: bytes, broker: str | None, topic: str) -> Answer:
    """Ask the running gateway for the effective policies of a topic.

    :param note: of the gateway.
    :param text: of the configuration file.
    :param broker: name of the broker's entry; None if there is only one.
    :raises click.UsageError: if the gateway has no such broker, or several.
    """
    try:
        query = urlencode({"topic": topic, **({} if broker is None else {"broker": broker})})
    except UnicodeEncodeError:
        return Answer(None, "such a name cannot be asked for")
    try:
        status, found = _get(note, f"{EFFECTIVE_POLICIES}?{query}")
    except (OSError, HTTPException, ValueError) as error:
        return Answer(None, f"does not answer ({str(error) or type(error).__name__})")
    if status == HTTPStatus.OK:
        return Answer(found, differs=found.pop("file_mark") != file_mark(digest_of(text), note.key))
    if "brokers" in found:
        raise which_broker(broker, found["brokers"])
    return Answer(None, f"answers {status}: {found.get('detail', '')}")


def which_broker(name: str | None, known: list[str]) -> click.UsageError:
    """The error for a broker that there is not, or that must be named."""
    what = "which broker?" if name is None else f"unknown broker {name!r}:"
    return click.UsageError(f"{what} expected --broker with one of: {', '.join(known)}")


def _get(note: RunningNote, path: str) -> tuple[int, dict[str, Any]]:
    """Status and content of an answer; raises ValueError if it is not a JSON object."""
    connection = HTTPConnection(note.host, note.port, timeout=_PATIENCE_S)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        found = json.loads(response.read(_LARGEST))
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise ValueError("its answer is no JSON object")
    return response.status, found
