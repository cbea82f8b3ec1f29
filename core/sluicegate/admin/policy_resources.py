"""The policies over HTTP: what is set, a change or only its plan, the document, history and undo."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from sluicegate.admin.access import Caller
from sluicegate.admin.bodies import (
    YAML_TYPE,
    UndoBody,
    query_flag,
    query_limit,
    query_number,
    query_page,
    query_text,
    read_json,
    read_text,
)
from sluicegate.admin.problems import json_response
from sluicegate.admin.serving import resource
from sluicegate.runtime.changing import Wanted
from sluicegate.runtime.edits import ChangeBody, PromoteBody
from sluicegate.runtime.hindsight import Hindsight
from sluicegate.runtime.policy_desk import PolicyDesk, reason_of_undo
from sluicegate.store import Author

Result = TypeVar("Result")
Handler = Callable[[Request], Awaitable[Response]]
_HISTORY = 50
_LONGEST_REASON = 1_000
_NO_BOUND = 2**53 - 1
_FILTERS = ("broker", "level", "name", "field", "source")


class DeskOwner(Protocol):
    """The part of the supervisor that the policies need."""

    async def at_desk(self, call: Callable[[PolicyDesk], Result]) -> Result:
        """Make a call where policies are read and changed; what it changes is in force afterwards."""


class PolicyResources:
    """The handlers.

    :param owner: the supervisor.
    """

    def __init__(self, owner: DeskOwner) -> None:
        self._owner = owner
        self._looking_back = asyncio.Semaphore(1)

    def routes(self) -> Sequence[BaseRoute]:
        """Paths below that of the API."""
        return [
            resource("/v1/policies", plans=True, GET=self.settings, PATCH=self.change),
            resource("/v1/policies/document", plans=True, GET=self.export, POST=self.apply),
            resource("/v1/policies/history", GET=self.history),
            resource("/v1/policies/rollouts", GET=self.rollouts),
            resource("/v1/policies/promote", plans=True, POST=self.promote),
            resource("/v1/policies/history/{number}/undo", plans=True, POST=self.undo),
        ]

    async def settings(self, request: Request) -> Response:
        """What file and store set, in pages."""
        query = request.query_params
        offset, limit = query_page(query)
        wanted = {key: query[key] for key in _FILTERS if key in query}
        page = await self._owner.at_desk(lambda desk: desk.settings(wanted, offset, limit))
        etag = _etag(page["version"])
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"etag": etag})
        if offset + limit < page["total"]:
            page["next_offset"] = offset + limit
        return _with_etag(json_response(page), etag)

    async def change(self, request: Request) -> Response:
        """Set and unset policies, or plan it."""
        body = await read_json(request, ChangeBody)
        return await self._changed(request, lambda desk: body.wanted(), body.reason)

    async def export(self, request: Request) -> Response:
        """The store's policies as a document."""
        text = await self._owner.at_desk(PolicyDesk.export)
        return Response(text, media_type=YAML_TYPE, headers={"cache-control": "no-store"})

    async def apply(self, request: Request) -> Response:
        """Make the store agree with a document, or plan it."""
        prune = query_flag(request.query_params, "prune")
        reason = query_text(request.query_params, "reason", _LONGEST_REASON)
        text = await read_text(request, YAML_TYPE)
        return await self._changed(request, lambda desk: desk.document(text, "document", prune=prune), reason)

    async def history(self, request: Request) -> Response:
        """The last revisions, newest first."""
        limit = query_limit(request.query_params, _HISTORY)
        before = query_number(request.query_params, "before", _NO_BOUND, 1, _NO_BOUND)
        revisions = await self._owner.at_desk(lambda desk: desk.history(limit, before))
        shown: dict[str, Any] = {"revisions": revisions}
        if len(revisions) == limit and revisions[-1]["number"] > 1:
            shown["next_before"] = revisions[-1]["number"]
        return json_response(shown)

    async def undo(self, request: Request) -> Response:
        """Take back a revision, or plan it."""
        number = query_number(request.path_params, "number", 0, 1, _NO_BOUND)
        body = await read_json(request, UndoBody)
        reason = reason_of_undo(number, body.reason)
        return await self._changed(request, lambda desk: desk.undoing(number), reason)

    async def rollouts(self, request: Request) -> Response:
        """The policies that do not apply to everybody yet."""
        return json_response({"rollouts": await self._owner.at_desk(lambda desk: desk.rollouts.rows())})

    async def promote(self, request: Request) -> Response:
        """Have a policy apply to more, or plan it."""
        body = await read_json(request, PromoteBody)
        asked = body.promotion()
        return await self._changed(request, lambda desk: desk.rollouts.promoting(asked), body.reason)

    async def _changed(
        self, request: Request, find: Callable[[PolicyDesk], list[Wanted]], reason: str
    ) -> Response:
        """Make a change, or plan it if the query says `dry_run=true`."""
        dry_run = query_flag(request.query_params, "dry_run")
        seen = _seen(request)
        caller: Caller = request.scope["caller"]

        def work(desk: PolicyDesk) -> tuple[dict[str, Any], Hindsight | None]:
            return desk.carry_out(find(desk), Author(caller.name, reason), seen, dry_run=dry_run)

        change, hindsight = await self._owner.at_desk(work)
        if hindsight is not None:
            change["last_hour"] = await self._look_back(hindsight)
        return _with_etag(json_response(change), _etag(change["version"]))

    async def _look_back(self, hindsight: Hindsight) -> dict[str, Any]:
        """Replay the last hour in a thread of its own, one at a time: it takes memory and seconds."""
        async with self._looking_back:
            return await asyncio.to_thread(lambda: hindsight.look(time.time_ns() / 1e9))


def _seen(request: Request) -> str | None:
    """The version in If-Match; None without one."""
    text = request.headers.get("if-match")
    if text is None or text == "*":
        return None
    version = text.strip().removeprefix("W/").strip('"')
    try:
        int(version, 16)
    except ValueError:
        version = "0"  # no version of policies: never equal to the one in force
    return version


def _etag(version: str) -> str:
    return f'"{version}"'


def _with_etag(response: Response, etag: str) -> Response:
    response.headers["etag"] = etag
    return response
