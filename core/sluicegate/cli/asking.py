"""Finds the gateway that runs with a file, and asks its admin API; it imports little, to be fast."""

import json
import os
import time
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from sluicegate.admin.running_note import ACTOR, RunningNote, environment_mark, find_note, own_token
from sluicegate.cli.command_user import command_user
from sluicegate.output import echo

_PATIENCE_S = 15.0
"""Longest wait for the gateway. Most answers take milliseconds; a plan may replay the last hour."""
_LARGEST = 64 << 20
"""Bytes of an answer."""
_TRIES = 20
_RETRY_S = 0.1
"""A certificate is in its file up to a second before the gateway shows it."""

Answer = dict[str, Any]


class GatewayError(click.ClickException):
    """The running gateway does not answer, or refuses.

    :param note: of the gateway.
    :param reason: what it does instead, as a predicate.
    """

    def __init__(self, note: RunningNote, reason: str) -> None:
        super().__init__(f"the gateway (process {note.pid}) {reason}")


class Looked(NamedTuple):
    """A configuration file, and the gateway that runs with it."""

    text: bytes
    """Of the file; empty if it cannot be read, which opening it reports."""
    state_dir: str
    """Of the gateway; empty if none runs with the file."""
    gateway: "RunningGateway | None"
    reason: str
    """Why none is asked; empty if one is."""


def look_for(file: str) -> Looked:
    """Find the gateway that runs on this host with a file."""
    try:
        text = Path(file).read_bytes()
    except OSError:
        text = b""
    noted = find_note(text, file, os.environ) if text else None
    if noted is None:
        return Looked(text, "", None, "no gateway on this host runs with this file")
    state_dir, note = noted
    if environment_mark(os.environ) not in ("", note.environment):
        other = "was started with other SLUICEGATE__ variables than this command"
        return Looked(text, state_dir, None, f"the gateway (process {note.pid}) {other}")
    return Looked(text, state_dir, RunningGateway(note), "")


class RunningGateway:
    """The admin API of a gateway of this host, asked as the gateway's own user.

    :param note: where it is, the key of its own user, and which certificate to trust.
    """

    def __init__(self, note: RunningNote) -> None:
        self.note = note

    def ask_json(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Make a request that must be answered well.

        :raises GatewayError: if the gateway does not answer.
        :raises click.ClickException: with detail and remedy, if it answers with a problem.
        """
        status, answer = self.answer(method, path, body, headers)
        if status != HTTPStatus.OK:
            for finding in answer.get("findings", ()):
                where = f"{finding['file']}:{finding['line']}:{finding['column']}"
                echo(f"{where}: {finding['message']}: {finding['remedy']}", err=True)
            raise click.ClickException(f"{answer.get('detail', 'refused')}: {answer.get('remedy', '')}")
        return answer

    def answer(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Answer]:
        """Make a request; status and content of the answer.

        :raises GatewayError: if the gateway does not answer with a JSON object.
        """
        status, content = self.ask(method, path, body, headers)
        try:
            parsed = json.loads(content)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise GatewayError(self.note, f"answers {status} without a JSON object")
        return status, parsed

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Make a request; status and content of the answer.

        :param body: bytes, or what is sent as JSON; None for none.
        :raises GatewayError: if the gateway does not answer.
        """
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        own = {
            "Accept": "application/json",
            "Authorization": f"Bearer {own_token(self.note.key)}",
            "Content-Type": "application/json",
            ACTOR: quote(command_user(), safe=" ()@"),
        }
        connection = None
        try:
            connection = _connected(self.note)
            connection.request(method, path, sent, {**own, **(headers or {})})
            response = connection.getresponse()
            return response.status, response.read(_LARGEST)
        except (OSError, HTTPException) as error:
            raise GatewayError(self.note, f"does not answer ({str(error) or type(error).__name__})") from None
        finally:
            if connection is not None:
                connection.close()


def which_broker(name: str | None, known: list[str]) -> click.UsageError:
    """The error for a broker that there is not, or that must be named."""
    what = "which broker?" if name is None else f"unknown broker {name!r}:"
    return click.UsageError(f"{what} expected --broker with one of: {', '.join(known)}")


def _connected(note: RunningNote) -> HTTPConnection:
    """A connection to the gateway, and to no other process.

    Its certificate is for other names than the loopback address, and its authority may be known to clients
    alone. So it is compared with the file that the note names, before the token is sent.
    """
    if not note.certificate:
        return HTTPConnection(note.host, note.port, timeout=_PATIENCE_S)
    import ssl  # it takes longer to load than a request over plain HTTP
    from http.client import HTTPSConnection

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for _ in range(_TRIES):
        connection = HTTPSConnection(note.host, note.port, timeout=_PATIENCE_S, context=context)
        connection.connect()
        if _is_trusted(connection.sock.getpeercert(binary_form=True), note.certificate):
            return connection
        connection.close()
        time.sleep(_RETRY_S)
    raise OSError(f"it shows another certificate than {note.certificate}")


def _is_trusted(shown: bytes | None, path: str) -> bool:
    """Whether a certificate is the first one of a PEM file."""
    from ssl import PEM_cert_to_DER_cert

    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    text = Path(path).read_text("latin-1")
    first = begin + text.partition(begin)[2].partition(end)[0] + end
    try:
        return shown is not None and PEM_cert_to_DER_cert(first) == shown
    except ValueError:
        return False  # it is being written
