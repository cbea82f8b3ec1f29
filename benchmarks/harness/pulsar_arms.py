"""The ways from a client to Pulsar that are compared."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.names import (
    DIRECT,
    HAPROXY,
    PULSAR_PROXY,
    SLUICEGATE,
    SLUICEGATE_DELAY,
    SLUICEGATE_DISPATCH,
)
from benchmarks.harness.processes import Child, free_port
from benchmarks.harness.proxies import Gate, start_haproxy
from benchmarks.harness.pulsar import start_proxy
from benchmarks.harness.pulsar_clients import Route, publish
from benchmarks.harness.starting import Arms
from sluicegate_reports.runner.brokers.pulsar import PulsarNode

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
_DISPATCH: dict[str, object] = {
    "max_dispatch_rate": "1M/s",
    "max_dispatch_rate_bytes": "2GiB/s",
    "max_subscription_dispatch_rate": "1M/s",
}
_GATES: dict[str, tuple[dict[str, object], dict[str, dict[str, int]]]] = {
    SLUICEGATE: (
        {},
        {LIMITED: {"max_publish_rate": LIMITED_PER_S}, SLOW: {"max_publish_rate": SLOW_PER_S}},
    ),
    SLUICEGATE_DELAY: ({"fixed_delivery_delay": 1}, {LATE: {"fixed_delivery_delay": LATE_MS}}),
    SLUICEGATE_DISPATCH: (_DISPATCH, {}),
}
"""By arm: its policies besides `_POLICIES`, and those of namespaces."""
_LISTENER = "haproxy"


@dataclass(frozen=True, slots=True)
class PulsarArm:
    """One way to Pulsar; `proxy` is the process that is measured, None where there is none."""

    route: Route
    proxy: Child | None = None


class PulsarArms(Arms[PulsarArm]):
    """Pulsar's arms."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        super().__init__(stack, directory)
        self._haproxy_port = free_port()
        self._filled: set[str] = set()
        self._topics = 0

    @property
    def node(self) -> PulsarNode:
        """The one Pulsar behind every arm.

        :raises UnavailableError: if it cannot be started; remembered.
        """
        return self.once("node", self._start_node)

    def _start_node(self) -> PulsarNode:
        node = PulsarNode(self.directory / "node", listeners={_LISTENER: self._haproxy_port})
        self.stack.enter_context(node)
        _make_namespaces(node)
        return node

    def start(self, name: str) -> PulsarArm:
        """See `Arms`."""
        starters = {DIRECT: self._direct, HAPROXY: self._haproxy, PULSAR_PROXY: self._pulsar_proxy}
        return starters[name]() if name in starters else self._gate(name)

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
        return PulsarArm(Route(self.node.service_url))

    def _haproxy(self) -> PulsarArm:
        node, port = self.node, self._haproxy_port
        child = start_haproxy(self.stack, self.directory / HAPROXY, port=port, upstream=node.port)
        return PulsarArm(Route(f"pulsar://127.0.0.1:{port}", _LISTENER), child)

    def _pulsar_proxy(self) -> PulsarArm:
        node, port = self.node, free_port()
        child = start_proxy(self.stack, self.directory / PULSAR_PROXY, node, port=port, web_port=free_port())
        return PulsarArm(Route(f"pulsar://127.0.0.1:{port}"), child)

    def _gate(self, name: str) -> PulsarArm:
        """A gate of its own for each arm, so that its memory is that of this arm's policies."""
        node, (more, namespaces) = self.node, _GATES[name]
        policies = {
            "broker": _POLICIES | more,
            "namespaces": [{"name": each, **values} for each, values in namespaces.items()],
        }
        admin = {"admin": {"url": node.admin_url}}
        gate = Gate(self.stack, self.directory / name, "pulsar", [node.address], policies, admin).wait()
        return PulsarArm(Route(f"pulsar://{gate.address}"), gate.child)


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
