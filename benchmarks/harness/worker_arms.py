"""Gateways with one worker and with two, in front of stand-ins that take little CPU."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.grpc_clients import start_upstream
from benchmarks.harness.names import DIRECT, SLUICEGATE, SLUICEGATE_2_WORKERS
from benchmarks.harness.noting_stand_in import start_noting
from benchmarks.harness.processes import Child, free_port
from benchmarks.harness.proxies import Gate
from benchmarks.harness.starting import Arms

WORKERS = {SLUICEGATE: 1, SLUICEGATE_2_WORKERS: 2}
_POLICIES: dict[str, object] = {
    "max_message_size": "4MiB",
    "max_publish_rate": "10M/s",
    "max_producers_per_topic": 1_000,
    # On a busy machine the supervisor may answer too late, and gRPC calls would be refused meanwhile.
    "on_limit": {"max_publish_rate": "delay"},
}
GRPC = "danube"
"""The system whose stand-in and clients are `deploy/grpc/peer`."""


@dataclass(frozen=True, slots=True)
class WorkerArm:
    """One way to a stand-in; `proxy` is the gateway, None where there is none."""

    address: str
    upstream: Child
    proxy: Child | None = None


class WorkerArms(Arms[WorkerArm]):
    """The arms in front of one stand-in.

    :param system: `kafka`, `pulsar` or `danube`.
    :param policies: more of the gateways' policies.
    """

    def __init__(
        self, stack: ExitStack, directory: Path, system: str, policies: Mapping[str, object]
    ) -> None:
        super().__init__(stack, directory)
        self.system = system
        self._policies = {**_POLICIES, **policies}

    def start(self, name: str) -> WorkerArm:
        """See `Arms`."""
        port, upstream = self.once("upstream", self._start_upstream)
        address = f"127.0.0.1:{port}"
        if name == DIRECT:
            return WorkerArm(address, upstream)
        entry = {"workers": WORKERS[name]}
        directory = self.directory / name
        gate = Gate(self.stack, directory, self.system, [address], {"broker": self._policies}, entry).wait()
        return WorkerArm(gate.address, upstream, gate.child)

    def _start_upstream(self) -> tuple[int, Child]:
        if self.system != GRPC:
            return start_noting(self.stack, self.directory / "upstream", self.system)
        port = free_port()
        return port, start_upstream(self.stack, self.directory / "upstream", port)
