"""The ways from a gRPC client to the broker that are compared."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.harness import grpc_proxies
from benchmarks.harness.grpc_clients import start_upstream
from benchmarks.harness.names import (
    DIRECT,
    ENVOY,
    GRPC_AIO,
    HAPROXY,
    NGINX,
    SLUICEGATE,
    SLUICEGATE_DISPATCH,
)
from benchmarks.harness.processes import Child, free_port, free_ports
from benchmarks.harness.proxies import start_gate
from benchmarks.harness.starting import StartedOnce

_POLICIES: dict[str, object] = {
    "max_message_size": "4MiB",
    "max_publish_rate": "1M/s",
    "max_producers_per_topic": 100,
    "max_consumers_per_topic": 100,
}
LIMITED_TOPIC = "/default/limited"
LIMITED_PER_S = 1_000
_LIMITED: dict[str, object] = {
    "name": LIMITED_TOPIC,
    "max_publish_rate": f"{LIMITED_PER_S}/s",
    "on_limit": {"max_publish_rate": "delay"},
}
_DISPATCH: dict[str, object] = {"max_dispatch_rate": "10M/s", "max_subscription_dispatch_rate": "10M/s"}


@dataclass(frozen=True, slots=True)
class GrpcArm:
    """One way to the broker; `proxy` is the process that is measured, None where there is none."""

    name: str
    address: str
    proxy: Child | None = None


class _Starter(Protocol):
    def __call__(self, stack: ExitStack, directory: Path, *, port: int, upstream: int) -> Child: ...


@dataclass(slots=True)
class GrpcArms:
    """gRPC's arms, started when a scenario first asks for them and ended with `stack`."""

    stack: ExitStack
    directory: Path
    _upstreams: StartedOnce[int] = field(default_factory=StartedOnce)
    _arms: StartedOnce[GrpcArm] = field(default_factory=StartedOnce)

    def arm(self, name: str) -> GrpcArm:
        """The arm of that name.

        :raises UnavailableError: if a program that it needs is missing or did not start; remembered.
        """
        return self._arms.get(name, lambda: self._start(name))

    def fresh_arm(self, name: str) -> GrpcArm:
        """The arm with its proxy started anew, for figures that must not depend on what it did before."""
        old = self._arms.forget(name)
        if old is not None and old.proxy is not None:
            old.proxy.stop()
        return self.arm(name)

    def _start(self, name: str) -> GrpcArm:
        upstream = self._upstreams.get("peer", self._start_upstream)
        if name == DIRECT:
            return GrpcArm(name, f"127.0.0.1:{upstream}")
        start, port = _STARTERS.get(name), free_ports(8)
        if start is None:
            child = self._gate(name, port, upstream)
        else:
            child = start(self.stack, self.directory / name, port=port, upstream=upstream)
        return GrpcArm(name, f"127.0.0.1:{port}", child)

    def _start_upstream(self) -> int:
        port = free_port()
        start_upstream(self.stack, self.directory / "peer", port)
        return port

    def _gate(self, name: str, port: int, upstream: int) -> Child:
        entry = {
            "name": "benchmark",
            "system": "danube",
            "bootstrap": [f"127.0.0.1:{upstream}"],
            "listen": {"port": port},
        }
        policies = {"broker": _POLICIES | _MORE[name], "topics": [_LIMITED]}
        return start_gate(self.stack, self.directory / name, entry, policies)


_STARTERS: dict[str, _Starter] = {
    NGINX: grpc_proxies.start_nginx,
    HAPROXY: grpc_proxies.start_haproxy,
    ENVOY: grpc_proxies.start_envoy,
    GRPC_AIO: grpc_proxies.start_grpc_aio,
}
_MORE: dict[str, dict[str, object]] = {SLUICEGATE: {}, SLUICEGATE_DISPATCH: _DISPATCH}
