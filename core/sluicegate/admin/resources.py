"""What the admin API answers, and its page."""

import os
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from sluicegate.admin import EFFECTIVE_POLICIES
from sluicegate.admin.access import Access
from sluicegate.admin.bodies import query_broker, query_text
from sluicegate.admin.decision_resources import DecisionResources
from sluicegate.admin.live_resources import LiveResources, Observed
from sluicegate.admin.openapi import described
from sluicegate.admin.page import page_route
from sluicegate.admin.policy_resources import DeskOwner, PolicyResources
from sluicegate.admin.problems import json_response, problem
from sluicegate.admin.running_note import file_mark
from sluicegate.admin.served_resources import ServedResources
from sluicegate.admin.serving import resource
from sluicegate.config.admin_section import AdminCaller
from sluicegate.runtime.effective import Asker, BrokerPolicies
from sluicegate.runtime.policy_desk import used_now

_ROOT = "/api"
_LONGEST_TOPIC = 4_096
"""Characters; the longest names of brokers are shorter."""


class Supervised(DeskOwner, Observed, Protocol):
    """The part of the supervisor that the API reads."""

    @property
    def policies_in_force(self) -> Mapping[str, BrokerPolicies]:
        """The policies now in force, by broker; empty while the gateway starts."""

    @property
    def state_dir(self) -> str:
        """The gateway's state directory."""

    @property
    def file_digest(self) -> str:
        """The digest of the file in force."""


def admin_routes(
    supervisor: Supervised, key: str, callers: Sequence[AdminCaller] = ()
) -> Sequence[BaseRoute]:
    """The API and its page, for an endpoint that has other paths, too.

    :param supervisor: what it tells about.
    :param key: of the gateway's note, which its own user alone can read; it hides the digest of the file.
    :param callers: of the configuration file.
    """

    async def effective(request: Request) -> Response:
        topic = request.query_params.get("topic", "")
        if not topic or len(topic) > _LONGEST_TOPIC:
            detail = "no topic is named" if not topic else f"a topic has at most {_LONGEST_TOPIC} characters"
            remedy = "name one, percent-encoded: ?topic=orders.eu or ?topic=persistent%3A%2F%2Ft%2Fn%2Forders"
            return problem("invalid-topic", HTTPStatus.BAD_REQUEST, detail, remedy)
        policies = query_broker(request.query_params, supervisor.policies_in_force)
        mark = file_mark(supervisor.file_digest, key)
        asker = Asker(*(query_text(request.query_params, name, _LONGEST_TOPIC) for name in Asker._fields))
        answer = policies.explain(topic, asker)
        answer["use"] = _use_of(supervisor.snapshots(), policies, answer["topic"])
        return json_response({**answer, "process": os.getpid(), "file_mark": mark})

    async def description(request: Request) -> Response:
        return json_response(described())

    effective_route = resource(EFFECTIVE_POLICIES.removeprefix(_ROOT), GET=effective)
    description_route = Route("/v1/openapi.json", description, methods=["GET"])
    routes = [description_route, effective_route, *PolicyResources(supervisor).routes()]
    routes += ServedResources(supervisor).routes()
    routes += [*LiveResources(supervisor).routes(), *DecisionResources(supervisor.state_dir).routes()]
    handlers = {HTTPException: _refused, Exception: _failed}
    api = Starlette(routes=routes, exception_handlers=handlers)
    api.router.redirect_slashes = False
    mount = Mount(_ROOT, Access(api, callers, key))
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)  # a name may have a line break
    return [page_route(), mount]


def _use_of(snapshots: Sequence[Mapping[str, Any]], policies: BrokerPolicies, topic: str) -> dict[str, str]:
    """What a topic uses of its limits now, as text by policy; of named topics alone."""
    for snapshot in snapshots:
        sample = snapshot["topics"].get(topic)
        if snapshot["broker"] == policies.config.name and sample is not None:
            used = {field: used_now(sample, field) for field in sample["use"]}
            return {
                field: policies.fields.text(field, value) if value else "0"
                for field, value in used.items()
                if value is not None
            }
    return {}


async def _refused(request: Request, error: Exception) -> Response:
    """A path or a method that there is not."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    status = HTTPStatus(error.status_code)
    name = status.phrase.lower().replace(" ", "-")
    detail = f"{request.method} {request.url.path}: {status.phrase.lower()}"
    return problem(name, status, detail, f"try GET {EFFECTIVE_POLICIES}?topic=NAME", error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """An error of the gateway, or of a plugin that it asks; it is logged with its traceback."""
    remedy = "see the log of the gateway"
    return problem("internal-error", HTTPStatus.INTERNAL_SERVER_ERROR, "the gateway failed to answer", remedy)
