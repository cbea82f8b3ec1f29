"""Refusals and holds over HTTP: the last ones, one by its id, and live as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from sluicegate.admin.bodies import query_limit, query_number
from sluicegate.admin.problems import json_response, problem
from sluicegate.admin.serving import resource
from sluicegate.decisions.journal import JournalError, Refusal, find, later, newest
from sluicegate.model import version_text, visible_json

_PAGE = 100
_NO_BOUND = 2**53 - 1
_LOOK_S = 0.5
_AT_ONCE = 200
_STREAMS = 20
"""Most clients that follow at once."""
_IDLE_LOOKS = 30
"""Looks without news after which a comment is sent, so that a client that is gone is noticed."""
_FILTERS = {"broker": "gateway", "topic": "topic", "principal": "principal", "action": "action"}
"""Attributes by parameter of the query."""


class DecisionResources:
    """The handlers.

    :param state_dir: where the journal is.
    """

    def __init__(self, state_dir: str) -> None:
        self._state_dir = state_dir
        self._streams = 0

    def routes(self) -> Sequence[BaseRoute]:
        """Paths below that of the API."""
        return [
            resource("/v1/decisions", GET=self.recent),
            resource("/v1/decisions/live", GET=self.live),
            resource("/v1/decisions/{id}", GET=self.one),
        ]

    async def recent(self, request: Request) -> Response:
        """The last refusals and holds, newest first."""
        query = request.query_params
        limit = query_limit(query, _PAGE)
        before = query_number(query, "before", _NO_BOUND, 1, _NO_BOUND)
        refusals = await self._read(lambda: newest(self._state_dir, limit, before))
        shown: dict[str, Any] = {
            "decisions": [_row(*each) for each in refusals if _is_asked_for(each[1], query)]
        }
        if len(refusals) == limit:
            shown["next_before"] = refusals[-1][0]
        return json_response(shown)

    async def one(self, request: Request) -> Response:
        """One refusal by its id."""
        name = request.path_params["id"][:200]
        try:
            refusal = await asyncio.to_thread(find, self._state_dir, name)
        except JournalError:
            refusal = None
        if refusal is None:
            remedy = "older ones are in the decision log (column decision_id)"
            return problem("unknown-decision", HTTPStatus.NOT_FOUND, f"no refusal {name!r}", remedy)
        return json_response(_row(0, refusal))

    async def live(self, request: Request) -> Response:
        """Refusals and holds as they come: server-sent events, each a decision as in `recent`."""
        if self._streams >= _STREAMS:
            detail = f"{_STREAMS} clients follow already"
            status, retry = HTTPStatus.SERVICE_UNAVAILABLE, {"retry-after": "10"}
            return problem("too-many-streams", status, detail, "end one, or ask for the recent ones", retry)
        query = dict(request.query_params)
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return StreamingResponse(self._follow(query), media_type="text/event-stream", headers=headers)

    async def _follow(self, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            last = await self._read(lambda: newest(self._state_dir, 1))
            seen, idle = (last[0][0] if last else 0), 0
            yield b": refusals and holds\n\n"
            while True:
                await asyncio.sleep(_LOOK_S)
                refusals = await self._read(lambda: later(self._state_dir, seen, _AT_ONCE))  # noqa: B023
                idle = 0 if refusals else idle + 1
                if idle and idle % _IDLE_LOOKS == 0:
                    yield b": nothing new\n\n"
                for number, refusal in refusals:
                    seen = number
                    if _is_asked_for(refusal, query):
                        text = visible_json(json.dumps(_row(number, refusal), ensure_ascii=False))
                        yield f"id: {number}\ndata: {text}\n\n".encode(errors="replace")
        finally:
            self._streams -= 1

    async def _read(self, call: Callable[[], list[tuple[int, Refusal]]]) -> list[tuple[int, Refusal]]:
        """Read the journal in a thread; nothing is in a journal that there is not yet."""
        try:
            return await asyncio.to_thread(call)
        except JournalError:
            return []


def _is_asked_for(refusal: Refusal, query: Mapping[str, str]) -> bool:
    return all(getattr(refusal, name) == query[key] for key, name in _FILTERS.items() if query.get(key))


def _row(number: int, refusal: Refusal) -> dict[str, Any]:
    row = asdict(refusal)
    time_ns, version, broker = (row.pop(key) for key in ("time_ns", "policy_version", "gateway"))
    shown = {"number": number, "broker": broker, **row, "time_ms": time_ns // 1_000_000}
    reasons = [{**asdict(reason), "outcome": reason.outcome.name.lower()} for reason in refusal.reasons]
    return {**shown, "policies": version_text(version), "reasons": reasons}
