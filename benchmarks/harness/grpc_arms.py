"""The ways from a gRPC client to the broker that are compared."""

from dataclasses import dataclass

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
from benchmarks.harness.processes import Child, free_port
from benchmarks.harness.proxies import Gate
from benchmarks.harness.starting import Arms

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

    address: str
    proxy: Child | None = None


class GrpcArms(Arms[GrpcArm]):
    """gRPC's arms."""

    def start(self, name: str) -> GrpcArm:
        """See `Arms`."""
        upstream = self.once("peer", self._start_upstream)
        if name == DIRECT:
            return GrpcArm(f"127.0.0.1:{upstream}")
        directory = self.directory / name
        if name in _MORE:
            policies = {"broker": _POLICIES | _MORE[name], "topics": [_LIMITED]}
            gate = Gate(self.stack, directory, "danube", [f"127.0.0.1:{upstream}"], policies).wait()
            return GrpcArm(gate.address, gate.child)
        port = free_port()
        return GrpcArm(
            f"127.0.0.1:{port}", _STARTERS[name](self.stack, directory, port=port, upstream=upstream)
        )

    def _start_upstream(self) -> int:
        port = free_port()
        start_upstream(self.stack, self.directory / "peer", port)
        return port


_STARTERS = {
    NGINX: grpc_proxies.start_nginx,
    HAPROXY: grpc_proxies.start_haproxy,
    ENVOY: grpc_proxies.start_envoy,
    GRPC_AIO: grpc_proxies.start_grpc_aio,
}
_MORE: dict[str, dict[str, object]] = {SLUICEGATE: {}, SLUICEGATE_DISPATCH: _DISPATCH}
