"""The ways from a client to Pulsar that are compared."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.names import (
    DIRECT,
    HAPROXY,
    PULSAR_PROXY,
    SLUICEGATE,
    SLUICEGATE_DELAY,
    SLUICEGATE_DISPATCH,
)
from benchmarks.harness.processes import Child, free_port, free_ports
from benchmarks.harness.proxies import start_gate, start_haproxy
from benchmarks.harness.pulsar import PulsarNode, start_proxy
from benchmarks.harness.pulsar_clients import Route, publish
from benchmarks.harness.starting import StartedOnce

FREE = "public/default"
"""Namespace whose topics have no limit that is ever reached."""
LIMITED, NATIVE_LIMITED = "public/limited", "public/native-limited"
"""Namespaces with a publish rate of LIMITED_PER_S, set at the gate and at the broker."""
LIMITED_PER_S = 2_000
SLOW, NATIVE_SLOW = "public/slow", "public/native-slow"
"""The same with SLOW_PER_S, so little that it takes no machine time from another producer."""
SLOW_PER_S = 100
LATE = "public/late"
"""Namespace with a fixed delivery delay of LATE_MS, set at the gate named sluicegate-delay."""
LATE_MS = 500

_POLICIES: dict[str, object] = {
    "max_message_size": "4MiB",
    "max_publish_rate": "1M/s",
    "max_producers_per_topic": 100,
}
_NAMESPACES = {
    LIMITED: {"max_publish_rate": LIMITED_PER_S},
    SLOW: {"max_publish_rate": SLOW_PER_S},
}
_LISTENER = "haproxy"


@dataclass(frozen=True, slots=True)
class PulsarArm:
    """One way to Pulsar; `proxy` is the process that is measured, None where there is none."""

    name: str
    route: Route
    proxy: Child | None = None


@dataclass(slots=True)
class PulsarArms:
    """Pulsar's arms, started when a scenario first asks for them and ended with `stack`."""

    stack: ExitStack
    directory: Path
    _haproxy_port: int = field(default_factory=free_port)
    _nodes: StartedOnce[PulsarNode] = field(default_factory=StartedOnce)
    _arms: StartedOnce[PulsarArm] = field(default_factory=StartedOnce)
    _filled: set[str] = field(default_factory=set)
    _topics: int = 0

    @property
    def node(self) -> PulsarNode:
        """The one Pulsar behind every arm.

        :raises UnavailableError: if it cannot be started; remembered.
        """
        return self._nodes.get("pulsar", self._start_node)

    def _start_node(self) -> PulsarNode:
        node = PulsarNode(self.directory / "node", listeners={_LISTENER: self._haproxy_port})
        self.stack.enter_context(node)
        _make_namespaces(node)
        return node

    def arm(self, name: str) -> PulsarArm:
        """The arm of that name.

        :raises UnavailableError: if a program that it needs is missing or did not start; remembered.
        """
        return self._arms.get(name, lambda: _STARTERS[name](self))

    @contextmanager
    def fresh_topic(self, namespace: str = FREE) -> Iterator[str]:
        """Name of a topic that nobody has used, deleted afterwards; brokers make it when it is asked for."""
        self._topics += 1
        topic = f"persistent://{namespace}/benchmark-{self._topics}"
        try:
            yield topic
        finally:
            try:
                _ask(self.node, "DELETE", f"{topic.replace('://', '/')}?force=true")
            except OSError as error:
                print(f"topic {topic!r} was left behind: {error}")

    def filled_topic(self, messages: int, message_bytes: int) -> str:
        """A topic that holds so many messages, one in each entry, written once and without a proxy."""
        topic = f"persistent://{FREE}/filled-{messages}-{message_bytes}"
        if topic not in self._filled:
            # Without a subscription the broker would be free to drop them.
            path = topic.replace("://", "/")
            _ask(self.node, "PUT", path)
            _ask(self.node, "PUT", f"{path}/subscription/keep", _EARLIEST)
            publish(self.arm(DIRECT).route, topic, messages=messages, message_bytes=message_bytes)
            self._filled.add(topic)
        return topic

    def _direct(self) -> PulsarArm:
        return PulsarArm(DIRECT, Route(self.node.service_url))

    def _haproxy(self) -> PulsarArm:
        node, port = self.node, self._haproxy_port
        child = start_haproxy(self.stack, self.directory / HAPROXY, port=port, upstream=node.port)
        return PulsarArm(HAPROXY, Route(f"pulsar://127.0.0.1:{port}", _LISTENER), child)

    def _pulsar_proxy(self) -> PulsarArm:
        node, port = self.node, free_port()
        child = start_proxy(self.stack, self.directory / PULSAR_PROXY, node, port=port, web_port=free_port())
        return PulsarArm(PULSAR_PROXY, Route(f"pulsar://127.0.0.1:{port}"), child)

    def _sluicegate(self) -> PulsarArm:
        return self._gate(SLUICEGATE, {}, _NAMESPACES)

    def _sluicegate_delay(self) -> PulsarArm:
        late = {LATE: {"fixed_delivery_delay": LATE_MS}}
        return self._gate(SLUICEGATE_DELAY, {"fixed_delivery_delay": 1}, late)

    def _sluicegate_dispatch(self) -> PulsarArm:
        rates: dict[str, object] = {
            "max_dispatch_rate": "1M/s",
            "max_dispatch_rate_bytes": "2GiB/s",
            "max_subscription_dispatch_rate": "1M/s",
        }
        return self._gate(SLUICEGATE_DISPATCH, rates, {})

    def _gate(self, name: str, more: dict[str, object], namespaces: dict[str, dict[str, int]]) -> PulsarArm:
        """A gate of its own for each arm, so that its memory is that of this arm's policies."""
        node, port = self.node, free_ports(8)
        entry = {
            "name": "benchmark",
            "system": "pulsar",
            "bootstrap": [node.address],
            "listen": {"port": port},
            "admin": {"url": node.admin_url},
        }
        policies = {
            "broker": _POLICIES | more,
            "namespaces": [{"name": each, **values} for each, values in namespaces.items()],
        }
        child = start_gate(self.stack, self.directory / name, entry, policies)
        return PulsarArm(name, Route(f"pulsar://127.0.0.1:{port}"), child)


def _ask(node: PulsarNode, method: str, path: str, body: object = None) -> None:
    """One request to the broker's admin API; `path` is what follows `/admin/v2/`.

    :raises OSError: if it is not answered, or not with success.
    """
    url = f"{node.admin_url}/admin/v2/{path}"
    content = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(url, content, headers, method=method)
    with urllib.request.urlopen(request, timeout=30):
        pass


def _make_namespaces(node: PulsarNode) -> None:
    for namespace in (LIMITED, SLOW, LATE, NATIVE_LIMITED, NATIVE_SLOW):
        _ask(node, "PUT", f"namespaces/{namespace}")
    for namespace, rate in ((NATIVE_LIMITED, LIMITED_PER_S), (NATIVE_SLOW, SLOW_PER_S)):
        native = {"publishThrottlingRateInMsg": rate, "publishThrottlingRateInByte": -1}
        _ask(node, "POST", f"namespaces/{namespace}/publishRate", native)


_EARLIEST = {"ledgerId": -1, "entryId": -1}
_STARTERS: dict[str, Callable[[PulsarArms], PulsarArm]] = {
    DIRECT: PulsarArms._direct,  # noqa: SLF001 -- the table belongs to the class
    HAPROXY: PulsarArms._haproxy,  # noqa: SLF001
    PULSAR_PROXY: PulsarArms._pulsar_proxy,  # noqa: SLF001
    SLUICEGATE: PulsarArms._sluicegate,  # noqa: SLF001
    SLUICEGATE_DELAY: PulsarArms._sluicegate_delay,  # noqa: SLF001
    SLUICEGATE_DISPATCH: PulsarArms._sluicegate_dispatch,  # noqa: SLF001
}
