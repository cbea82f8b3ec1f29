"""Where `sluicegate policies` reads and changes: the running gateway, or else the file and its store."""

import json
import os
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import click

from sluicegate.admin import POLICIES
from sluicegate.admin.running_note import ACTOR, RunningNote, environment_mark, find_note, own_token
from sluicegate.cli.command_user import command_user
from sluicegate.output import echo

_PATIENCE_S = 30.0
_LARGEST = 64 << 20
_PAGE = 1_000

Found = dict[str, Any]


class Door(Protocol):
    """What the commands ask; answers are as from `runtime.policy_desk`."""

    origin: str
    """Where the answers come from."""

    def settings(self) -> Found:
        """Everything that file and store set."""

    def change(self, edits: list[Found], reason: str, seen: str | None, *, dry_run: bool) -> Found:
        """Set and unset policies, or plan it."""

    def export(self) -> str:
        """The store's policies as a document."""

    def apply(self, text: str, reason: str, *, prune: bool, dry_run: bool) -> Found:
        """Make the store agree with a document, or plan it."""

    def history(self, limit: int) -> list[Found]:
        """The last revisions."""

    def undo(self, number: int, reason: str, *, dry_run: bool) -> Found:
        """Take back a revision, or plan it."""

    def rollouts(self) -> list[Found]:
        """The policies that do not apply to everybody yet."""

    def promote(self, asked: Found, *, dry_run: bool) -> Found:
        """Have a policy apply to more, or plan it."""


def running_gateway(file: str) -> "GatewayDoor | None":
    """The gateway that runs on this host with a file; None if there is none."""
    try:
        text = Path(file).read_bytes()
    except OSError:
        text = b""  # opening it says why
    found = find_note(text, file, os.environ) if text else None
    if found is not None and environment_mark(os.environ) in ("", found[1].environment):
        return GatewayDoor(found[1])
    return None


def open_door(file: str) -> Door:
    """The gateway that runs on this host with a file; without one, the file itself."""
    running = running_gateway(file)
    if running is not None:
        return running
    # Without a gateway plugins and file are loaded, which takes longer than to ask one.
    from sluicegate.cli.file_door import FileDoor
    from sluicegate.cli.opening import open_file

    return FileDoor(file, open_file(file, os.environ))


class GatewayDoor:
    """The running gateway, over its admin API.

    :param note: where it is, and the key of its own user.
    """

    def __init__(self, note: RunningNote) -> None:
        self._note = note
        self.origin = f"running gateway (process {note.pid})"

    def settings(self) -> Found:
        """Everything, page by page; from the start again if it changes meanwhile."""
        while True:
            found = self._page(0)
            rows, next_offset = list(found["settings"]), found.get("next_offset")
            while next_offset is not None:
                page = self._page(next_offset)
                if page["version"] != found["version"]:
                    break
                rows += page["settings"]
                next_offset = page.get("next_offset")
            else:
                return {"version": found["version"], "settings": rows}

    def change(self, edits: list[Found], reason: str, seen: str | None, *, dry_run: bool) -> Found:
        """Set and unset policies, or plan it."""
        headers = {} if seen is None else {"If-Match": f'"{seen}"'}
        return self.ask_json("PATCH", _path("", dry_run=dry_run), {"edits": edits, "reason": reason}, headers)

    def export(self) -> str:
        """The store's policies as a document."""
        return self._ask("GET", _path("/document"))[1].decode()

    def apply(self, text: str, reason: str, *, prune: bool, dry_run: bool) -> Found:
        """Make the store agree with a document, or plan it."""
        path = _path("/document", dry_run=dry_run, prune=prune, reason=reason)
        return self.ask_json("POST", path, text.encode(), {"Content-Type": "application/yaml"})

    def history(self, limit: int) -> list[Found]:
        """The last revisions."""
        found: list[Found] = self.ask_json("GET", _path("/history", limit=limit))["revisions"]
        return found

    def undo(self, number: int, reason: str, *, dry_run: bool) -> Found:
        """Take back a revision, or plan it."""
        return self.ask_json("POST", _path(f"/history/{number}/undo", dry_run=dry_run), {"reason": reason})

    def rollouts(self) -> list[Found]:
        """The policies that do not apply to everybody yet."""
        found: list[Found] = self.ask_json("GET", _path("/rollouts"))["rollouts"]
        return found

    def promote(self, asked: Found, *, dry_run: bool) -> Found:
        """Have a policy apply to more, or plan it."""
        return self.ask_json("POST", _path("/promote", dry_run=dry_run), asked)

    def _page(self, offset: int) -> Found:
        return self.ask_json("GET", _path("", limit=_PAGE, offset=offset))

    def ask_json(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Found:
        """Make a request.

        :raises click.ClickException: if the gateway does not answer, or answers with a problem.
        """
        status, content = self._ask(method, path, body, headers)
        try:
            found = json.loads(content)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise click.ClickException(
                f"the gateway (process {self._note.pid}) answers {status} without JSON"
            )
        if status != HTTPStatus.OK:
            for finding in found.get("findings", ()):
                where = f"{finding['file']}:{finding['line']}:{finding['column']}"
                echo(f"{where}: {finding['message']}: {finding['remedy']}", err=True)
            raise click.ClickException(f"{found.get('detail', 'refused')}: {found.get('remedy', '')}")
        return found

    def _ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        note = self._note
        connection = HTTPConnection(note.host, note.port, timeout=_PATIENCE_S)
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        own = {
            "Authorization": f"Bearer {own_token(note.key)}",
            "Content-Type": "application/json",
            ACTOR: quote(command_user(), safe=" ()@"),
        }
        try:
            connection.request(method, path, sent, {**own, **(headers or {})})
            response = connection.getresponse()
            return response.status, response.read(_LARGEST)
        except (OSError, HTTPException) as error:
            text = f"the gateway (process {note.pid}) does not answer: {error or type(error).__name__}"
            raise click.ClickException(text) from None
        finally:
            connection.close()


def _path(below: str, **query: object) -> str:
    asked = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in query.items()
        if value not in ("", False)
    }
    return f"{POLICIES}{below}" + (f"?{urlencode(asked)}" if asked else "")
