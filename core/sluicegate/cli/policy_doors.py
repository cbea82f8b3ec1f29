"""Where `sluicegate policies` reads and changes: the running gateway, or else the file and its store."""

import os
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlencode

from sluicegate.admin import POLICIES
from sluicegate.cli.asking import Answer, RunningGateway, look_for

if TYPE_CHECKING:
    from sluicegate.cli.file_door import FileDoor

_PAGE = 1_000


Door: TypeAlias = "GatewayDoor | FileDoor"
"""What the commands ask; answers are as from `runtime.policy_desk`."""


def open_door(file: str) -> Door:
    """The gateway that runs on this host with a file; without one, the file itself."""
    looked = look_for(file)
    if looked.gateway is not None:
        return GatewayDoor(looked.gateway)
    # Without a gateway plugins and file are loaded, which takes longer than to ask one.
    from sluicegate.cli.file_door import FileDoor
    from sluicegate.cli.opening import open_file

    return FileDoor(file, open_file(file, os.environ), looked.reason)


class GatewayDoor:
    """The policies of the running gateway.

    :param gateway: its admin API.
    """

    def __init__(self, gateway: RunningGateway) -> None:
        self._gateway = gateway
        self.origin = f"running gateway (process {gateway.note.pid})"

    def settings(self) -> Answer:
        """Everything, page by page; from the start again if it changes meanwhile."""
        while True:
            first = self._page(0)
            rows, next_offset = list(first["settings"]), first.get("next_offset")
            while next_offset is not None:
                page = self._page(next_offset)
                if page["version"] != first["version"]:
                    break
                rows += page["settings"]
                next_offset = page.get("next_offset")
            else:
                return {"version": first["version"], "settings": rows}

    def change(self, edits: list[Answer], reason: str, seen: str | None, *, dry_run: bool) -> Answer:
        """Set and unset policies, or plan it."""
        headers = {} if seen is None else {"If-Match": f'"{seen}"'}
        return self._gateway.ask_json(
            "PATCH", _path("", dry_run=dry_run), {"edits": edits, "reason": reason}, headers
        )

    def export(self) -> str:
        """The store's policies as a document."""
        return self._gateway.ask("GET", _path("/document"))[1].decode()

    def apply(self, text: str, reason: str, *, prune: bool, dry_run: bool) -> Answer:
        """Make the store agree with a document, or plan it."""
        path = _path("/document", dry_run=dry_run, prune=prune, reason=reason)
        return self._gateway.ask_json("POST", path, text.encode(), {"Content-Type": "application/yaml"})

    def history(self, limit: int) -> list[Answer]:
        """The last revisions."""
        revisions: list[Answer] = self._gateway.ask_json("GET", _path("/history", limit=limit))["revisions"]
        return revisions

    def undo(self, number: int, reason: str, *, dry_run: bool) -> Answer:
        """Take back a revision, or plan it."""
        return self._gateway.ask_json(
            "POST", _path(f"/history/{number}/undo", dry_run=dry_run), {"reason": reason}
        )

    def rollouts(self) -> list[Answer]:
        """The policies that do not apply to everybody yet."""
        rollouts: list[Answer] = self._gateway.ask_json("GET", _path("/rollouts"))["rollouts"]
        return rollouts

    def promote(self, asked: Answer, *, dry_run: bool) -> Answer:
        """Have a policy apply to more, or plan it."""
        return self._gateway.ask_json("POST", _path("/promote", dry_run=dry_run), asked)

    def _page(self, offset: int) -> Answer:
        return self._gateway.ask_json("GET", _path("", limit=_PAGE, offset=offset))


def _path(below: str, **query: object) -> str:
    asked = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in query.items()
        if value not in ("", False)
    }
    return f"{POLICIES}{below}" + (f"?{urlencode(asked)}" if asked else "")
