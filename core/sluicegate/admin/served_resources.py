"""The policies in force over HTTP, for processes that apply them themselves."""

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from time import monotonic
from typing import NamedTuple, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from sluicegate.admin.bodies import query_broker, query_number
from sluicegate.admin.problems import json_response
from sluicegate.admin.serving import resource
from sluicegate.model import PolicySet
from sluicegate.runtime.effective import BrokerPolicies
from sluicegate.runtime.served_policies import ServedPolicies

_LONGEST_WAIT_S = 60
_LOOK_S = 0.25
_WAITING = 200
"""Most requests that wait for changes at once; further ones are answered at once."""


class InForce(Protocol):
    """The part of the supervisor that knows the policies."""

    @property
    def policies_in_force(self) -> Mapping[str, BrokerPolicies]:
        """The policies now in force, by broker; empty while the gateway starts."""

    def not_ready(self) -> Sequence[str]:
        """Why the gateway does not accept all clients; empty if it does."""


class _Served(NamedTuple):
    """An answer, made once for each change."""

    policies: PolicySet
    etag: str
    content: ServedPolicies


class ServedResources:
    """The handlers.

    :param supervisor: knows the policies.
    """

    def __init__(self, supervisor: InForce) -> None:
        self._supervisor = supervisor
        self._served: dict[str, _Served] = {}
        self._waiting = 0

    def routes(self) -> Sequence[BaseRoute]:
        """Paths below that of the API."""
        return [resource("/v1/policies/in-force", GET=self.in_force)]

    async def in_force(self, request: Request) -> Response:
        """All policies of one broker; with `wait` and If-None-Match, once they change."""
        wait_s = query_number(request.query_params, "wait", 0, 0, _LONGEST_WAIT_S)
        known = request.headers.get("if-none-match")
        served = self._now(request)
        if served.etag == known and wait_s and self._waiting < _WAITING:
            self._waiting += 1
            try:
                served = await self._changed(request, served, wait_s)
            finally:
                self._waiting -= 1
        headers = {"etag": served.etag, "cache-control": "no-store"}
        if served.etag == known:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        response = json_response(served.content.model_dump(mode="json"))
        response.headers.update(headers)
        return response

    async def _changed(self, request: Request, served: _Served, wait_s: int) -> _Served:
        """Wait for other policies, the end of the gateway, or of the client."""
        end_s = monotonic() + wait_s
        before = served.etag
        while served.etag == before and monotonic() < end_s and not self._supervisor.not_ready():
            await asyncio.sleep(_LOOK_S)
            served = self._now(request)
            if await request.is_disconnected():
                break
        return served

    def _now(self, request: Request) -> _Served:
        broker = query_broker(request.query_params, self._supervisor.policies_in_force)
        policies = broker.resolver.policy_set
        served = self._served.get(broker.config.name)
        if served is None or served.policies is not policies:
            content = ServedPolicies.of(broker.config, policies)
            served = self._served[broker.config.name] = _Served(policies, f'"{content.version}"', content)
        return served
