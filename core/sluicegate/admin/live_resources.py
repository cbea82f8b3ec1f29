"""What happens now, over HTTP: brokers, topics, principals, clients, who is held, plugins, health."""

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from sluicegate.admin.bodies import UndoBody, query_page, read_json
from sluicegate.admin.problems import json_response
from sluicegate.admin.serving import resource
from sluicegate.engine.state import COUNTERS
from sluicegate.model import version_text
from sluicegate.runtime.reported import reported_pressures, reported_state


class Observed(Protocol):
    """The part of the supervisor that tells what happens."""

    def snapshots(self) -> Sequence[Mapping[str, Any]]:
        """The last snapshot of each worker."""

    def status(self) -> Mapping[str, Any]:
        """The supervisor's own counters."""

    def not_ready(self) -> Sequence[str]:
        """Why the gateway does not accept all clients; empty if it does."""

    def brokers(self) -> Mapping[str, Mapping[str, Any]]:
        """Whether each broker can be reached."""

    def facts(self, broker: str, /) -> Mapping[str, str]:
        """The facts of a broker's front."""


class LiveResources:
    """The handlers. Rows have the name of their `broker`; totals only grow while the gateway runs.

    :param observed: the supervisor.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed

    def routes(self) -> Sequence[BaseRoute]:
        """Paths below that of the API."""
        return [
            resource("/v1/brokers", GET=self.brokers),
            resource("/v1/topics", GET=self.topics),
            resource("/v1/principals", GET=self.principals),
            resource("/v1/clients", GET=self.clients),
            resource("/v1/held", GET=self.held),
            resource("/v1/plugins", GET=self.plugins),
            resource("/v1/factors", GET=self.factors),
            resource("/v1/pressures", GET=self.pressures),
            resource("/v1/health", GET=self.health),
            resource("/v1/drain", POST=self.drain),
        ]

    async def brokers(self, request: Request) -> Response:
        """Each broker and its worker, or workers."""
        reached, workers = self._observed.brokers(), self._observed.status()["workers"]
        rows = [
            {
                "broker": snapshot["broker"],
                "system": snapshot["system"],
                **reached.get(snapshot["broker"], {}),
                **_workers_of(snapshot["broker"], workers),
                "connections": snapshot["gauges"]["connections"],
                "topics": snapshot["gauges"]["topics"],
                "policies": version_text(snapshot["gauges"]["policy_version"]),
                "use": snapshot["use"],
            }
            for snapshot in self._observed.snapshots()
        ]
        return _page(request, "brokers", rows)

    async def topics(self, request: Request) -> Response:
        """The busiest topics, and `other` for the rest."""
        return _page(request, "topics", self._rows("topics", "topic", topic_row))

    async def principals(self, request: Request) -> Response:
        """The busiest principals, and `other` for the rest."""
        return _page(request, "principals", self._rows("principals", "principal", dict))

    async def clients(self, request: Request) -> Response:
        """The busiest client ids, and `other` for the rest."""
        return _page(request, "clients", self._rows("clients", "client", dict))

    async def held(self, request: Request) -> Response:
        """Requests that are held now, the oldest of each broker first."""
        rows = [
            {"broker": snapshot["broker"], **each}
            for snapshot in self._observed.snapshots()
            for each in snapshot["held"]
        ]
        return _page(request, "held", rows)

    async def plugins(self, request: Request) -> Response:
        """Exceptions of plugins, and how long their calls take."""
        rows = [
            {"broker": snapshot["broker"], **row}
            for snapshot in self._observed.snapshots()
            for row in plugin_rows(snapshot)
        ]
        return _page(request, "plugins", rows)

    async def factors(self, request: Request) -> Response:
        """Factors, and the state of adaptive controllers."""
        rows = []
        for snapshot in self._observed.snapshots():
            state = reported_state(self._observed.facts(snapshot["broker"]))
            rows.append({"broker": snapshot["broker"], **state})
        return _page(request, "brokers", rows)

    async def pressures(self, request: Request) -> Response:
        """What presses on each broker: by factor what it leaves of rates, by source whether it is known."""
        rows = [
            {"broker": snapshot["broker"], **reported_pressures(self._observed.facts(snapshot["broker"]))}
            for snapshot in self._observed.snapshots()
        ]
        return _page(request, "brokers", rows)

    async def health(self, request: Request) -> Response:
        """Whether clients are served."""
        reasons = list(self._observed.not_ready())
        status = self._observed.status()
        body = {
            "ready": not reasons,
            "reasons": reasons,
            "process": os.getpid(),
            "policies": version_text(status["config_version"]),
            "last_reload_successful": status["config_last_reload_successful"],
            "store_age_s": round(status["store_age_seconds"], 3),
        }
        return json_response(body)

    async def drain(self, request: Request) -> Response:
        """End the gateway as SIGTERM does: it accepts no more clients, and finishes held requests."""
        await read_json(request, UndoBody)
        os.kill(os.getpid(), signal.SIGTERM)
        return json_response({"draining": True}, HTTPStatus.ACCEPTED)

    def _rows(self, part: str, key: str, row: Any) -> list[dict[str, Any]]:
        return [
            {"broker": snapshot["broker"], key: name, **row(sample)}
            for snapshot in self._observed.snapshots()
            for name, sample in snapshot[part].items()
        ]


def _workers_of(broker: str, workers: Mapping[str, Any]) -> dict[str, Any]:
    """State of a broker's worker; of several also that of each, and `up` and `restarts` of all."""
    several = [each for each in workers.values() if each.get("broker") == broker]
    if not several:
        return {"worker": workers.get(broker, {})}
    both = {"up": any(each["up"] for each in several), "restarts": sum(each["restarts"] for each in several)}
    return {"worker": both, "workers": several}


def topic_row(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A topic's sample for people."""
    counts = dict(zip(COUNTERS, sample["counters"], strict=True))
    refused: dict[str, int] = {}
    for policy, action, _, count in sample["violations"]:
        if action in ("reject", "drop", "delay"):
            refused[policy] = refused.get(policy, 0) + count
    return {
        "namespace": sample["namespace"],
        "published_messages": counts["allowed_messages"],
        "published_bytes": counts["allowed_bytes"],
        "dispatched_messages": counts["dispatched_messages"],
        "dispatched_bytes": counts["dispatched_bytes"],
        "refused": counts["rejected"] + counts["dropped"],
        "delayed": counts["delayed"],
        "by_policy": refused,
        "producers": sample["producers"],
        "consumers": sum(sample["consumers"].values()),
        "held": sample["held"],
        "use": sample["use"],
    }


def plugin_rows(snapshot: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Of each plugin that was called or raised: its exceptions, and mean and longest time by call."""
    faults = snapshot["plugin_faults"]
    calls: dict[str, list[dict[str, Any]]] = {name: [] for name in faults}
    for each in snapshot["plugin_calls"]:
        times = {
            "call": each["call"],
            "sampled": each["sampled"],
            "mean_us": round(each["sampled_ns"] / max(1, each["sampled"]) / 1e3, 2),
            "longest_us": round(each["longest_ns"] / 1e3, 2),
        }
        calls.setdefault(each["plugin"], []).append(times)
    for name in sorted(calls):
        yield {"plugin": name, "faults": faults.get(name, 0), "calls": calls[name]}


def _page(request: Request, name: str, rows: Iterable[dict[str, Any]]) -> Response:
    """A page of rows, of one broker if the query says which."""
    query = request.query_params
    start, limit = query_page(query)
    asked = [row for row in rows if query.get("broker") in (None, "", row["broker"])]
    shown: dict[str, Any] = {name: asked[start : start + limit], "total": len(asked)}
    if start + limit < len(asked):
        shown["next_offset"] = start + limit
    return json_response(shown)
