"""The admin API over a real file and store, asked in this process."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import httpx
from starlette.applications import Starlette

from sluicegate.admin.resources import admin_routes
from sluicegate.config.load import load
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.state import COUNTERS
from sluicegate.runtime.effective import BrokerPolicies
from sluicegate.runtime.plugins import load_plugins
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.runtime.policy_desk import PolicyDesk

KEY = "ab" * 16
TOKENS = {"ci": "write", "viewer": "read", "prometheus": "metrics"}
Answer = TypeVar("Answer")
USE = {"limit": 200, "in_force": 100, "level": "topic", "source": "file", "used_1s": 80.4, "used_10s": 75.0}


def topic_sample(**counts: int) -> dict[str, Any]:
    """A topic as a worker samples it."""
    return {
        "counters": [counts.get(name, 0) for name in COUNTERS],
        "violations": [["max_publish_rate", "delay", "limit_reached", counts.get("delayed", 0)]],
        "producers": 2,
        "consumers": {"one": 1, "two": 3},
        "held": 1,
        "namespace": "orders",
        "use": {"max_publish_rate": USE},
    }


SNAPSHOT = {
    "broker": "main",
    "system": "kafka",
    "gauges": {"connections": 7, "topics": 2, "policy_version": 5},
    "use": {},
    "topics": {
        "orders.eu": topic_sample(allowed_messages=500, allowed_ops=90, delayed=4),
        "\x1b[31m<script>": topic_sample(),
    },
    "principals": {"User:ann": {"published_messages": 5, "held": 0}},
    "clients": {"web": {"published_messages": 5, "held": 0}},
    "held": [{"client": "web", "topic": "orders.eu", "policy": "max_publish_rate", "since_ms": 1}],
    "plugin_faults": {"mine": 3},
    "plugin_calls": [
        {"plugin": "mine", "call": "max_batch", "sampled": 4, "sampled_ns": 6_000, "longest_ns": 9_300}
    ],
}


def file_text() -> str:
    """A file with a token for each scope; the token of `ci` is `token-ci`."""
    tokens = ", ".join(
        f"{{name: {name}, sha256: {hashlib.sha256(f'token-{name}'.encode()).hexdigest()}, scope: {scope}}}"
        for name, scope in TOKENS.items()
    )
    return f"""\
brokers:
  - {{name: main, system: kafka, bootstrap: ["127.0.0.1:1"], listen: {{port: 19092}}}}
admin: {{callers: [{tokens}]}}
policies:
  namespaces: [{{name: orders, max_publish_rate: 1000/s}}]
"""


class Supervised:
    """What the API needs of a supervisor, in the caller's thread."""

    file_digest = "0" * 64

    def __init__(self, directory: Path) -> None:
        self.path = directory / "gateway.yaml"
        self.path.write_text(file_text())
        plugins = load_plugins(())
        loaded = load(self.path, plugins.policy_models, plugins.broker_models, {})
        state = loaded.config.model_copy(update={"state_dir": str(directory)})
        object.__setattr__(loaded, "config", state)
        self.watch = PolicyWatch(self.path, loaded, plugins, {})
        self.watch.check()
        self.callers = loaded.config.admin.callers
        self.desk = PolicyDesk(self.watch)

    @property
    def policies_in_force(self) -> Mapping[str, BrokerPolicies]:
        """Of each broker."""
        loaded = self.watch.loaded
        return {
            broker.name: BrokerPolicies(
                broker,
                self.watch.plugins.drivers[broker.system],
                Resolver(self.watch.policies(broker.name), loaded.fields.defaults),
                loaded.fields,
                {},
            )
            for broker in loaded.config.brokers
        }

    @property
    def state_dir(self) -> str:
        """Where the journal is."""
        return str(self.path.parent)

    def snapshots(self) -> list[Mapping[str, Any]]:
        """Of a worker that is not there; see `SNAPSHOT`."""
        return [SNAPSHOT]

    def status(self) -> Mapping[str, Any]:
        """Of a supervisor."""
        return {
            "workers": {"main": {"up": True}},
            "config_version": self.watch.version,
            "config_last_reload_successful": True,
            "store_age_seconds": 0.1,
        }

    def not_ready(self) -> list[str]:
        """Clients are served."""
        return []

    def brokers(self) -> Mapping[str, Mapping[str, Any]]:
        """The broker is reached."""
        return {"main": {"up": True, "since_ms": 1, "reason": ""}}

    def facts(self, broker: str) -> Mapping[str, str]:
        """A factor that halves rates."""
        return {"factor.load": '{"value": 0.5, "why": "cpu"}'}

    async def at_desk(self, call: Callable[[PolicyDesk], Answer]) -> Answer:
        """Make a call."""
        return call(self.desk)


class Lab:
    """The API and a client of it."""

    def __init__(self, supervised: Supervised) -> None:
        self.supervised = supervised
        self.app = Starlette(routes=admin_routes(supervised, KEY, supervised.callers))

    async def ask(
        self,
        method: str,
        path: str,
        token: str | None = "token-ci",
        client: str = "127.0.0.1",
        **options: Any,
    ) -> httpx.Response:
        """Make a request below `/api/v1`."""
        transport = httpx.ASGITransport(self.app, client=(client, 50_000))
        headers = {**({} if token is None else {"authorization": f"Bearer {token}"})}
        headers |= options.pop("headers", {})
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as asking:
            return await asking.request(method, f"/api/v1{path}", headers=headers, **options)

    def close(self) -> None:
        """Close the store."""
        with closing(self.supervised.watch):
            pass
