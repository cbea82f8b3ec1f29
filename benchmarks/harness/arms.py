"""The ways from a client to the broker that are compared."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import isolation, jars
from benchmarks.harness.brokers import RunningBroker, start_broker
from benchmarks.harness.clients import create_topic, produce
from benchmarks.harness.grpc_arms import GrpcArms
from benchmarks.harness.names import DIRECT, HAPROXY, KROXYLICIOUS, SLUICEGATE, STRIMZI
from benchmarks.harness.processes import Child, UnavailableError, free_port, free_ports
from benchmarks.harness.proxies import start_gate, start_haproxy
from benchmarks.harness.pulsar_arms import PulsarArms
from benchmarks.harness.starting import StartedOnce

PROXIES = (DIRECT, HAPROXY, KROXYLICIOUS, SLUICEGATE)

LIMITED_TOPICS = "limited-*"
LIMIT_BYTES_PER_S = 10_000_000
"""The publish rate that the rate scenario sets, in bytes of record batches per second."""
_READY_S = 60


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to a broker; `proxy` is the process that is measured, None where there is none."""

    name: str
    bootstrap: str
    broker: RunningBroker
    proxy: Child | None = None


@dataclass(slots=True)
class Bench:
    """Kafka's arms, started when a scenario first asks for them and ended with `stack`."""

    stack: ExitStack
    directory: Path
    pulsar: PulsarArms = field(init=False)
    """The same for Pulsar."""
    grpc: GrpcArms = field(init=False)
    """The same for gRPC."""
    _haproxy_ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    _brokers: StartedOnce[RunningBroker] = field(default_factory=StartedOnce)
    _arms: StartedOnce[Arm] = field(default_factory=StartedOnce)
    _filled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.pulsar = PulsarArms(self.stack, self.directory / "pulsar")
        self.grpc = GrpcArms(self.stack, self.directory / "grpc")

    @property
    def broker(self) -> RunningBroker:
        """The one node behind every arm but Strimzi's."""
        return self._brokers.get("kafka", self._start_broker)

    def _start_broker(self) -> RunningBroker:
        bind, shown = self._haproxy_ports
        return start_broker(self.stack, self.directory / "kafka", port=free_port(), advertised={bind: shown})

    def arm(self, name: str) -> Arm:
        """The arm of that name.

        :raises UnavailableError: if a program that it needs is missing or did not start; remembered.
        """
        return self._arms.get(name, lambda: _STARTERS[name](self))

    def fresh_arm(self, name: str) -> Arm:
        """The arm with its proxy started anew, for figures that must not depend on what it did before."""
        old = self._arms.forget(name)
        if old is not None and old.proxy is not None:
            old.proxy.stop()
        return self.arm(name)

    def filled_topic(self, records: int, record_bytes: int) -> str:
        """A topic that holds at least so many records, written once and without a proxy."""
        name = f"filled-{records}-{record_bytes}"
        if name not in self._filled:
            create_topic(self.broker.bootstrap, name)
            produce(self.broker.bootstrap, name, records=records, record_bytes=record_bytes)
            self._filled.add(name)
        return name

    def _direct(self) -> Arm:
        return Arm(DIRECT, self.broker.bootstrap, self.broker)

    def _haproxy(self) -> Arm:
        broker, (upstream, port) = self.broker, self._haproxy_ports
        child = start_haproxy(self.stack, self.directory, port=port, upstream=upstream)
        return Arm(HAPROXY, f"127.0.0.1:{port}", broker, child)

    def _kroxylicious(self) -> Arm:
        if not isolation.isolated():
            raise UnavailableError(
                "it binds every interface: needs unshare, ip (iproute2) and the right to use them"
            )
        classpath, broker, port = jars.kroxylicious(), self.broker, free_ports(4)
        settings = self.directory / "kroxylicious.yaml"
        node = {
            "bootstrapAddress": f"127.0.0.1:{port}",
            "nodeIdRanges": [{"name": "all", "start": 1, "end": 2}],
        }
        cluster = {
            "name": "benchmark",
            "targetCluster": {"bootstrapServers": broker.bootstrap},
            "gateways": [{"name": "plain", "portIdentifiesNode": node}],
        }
        settings.write_text(json.dumps({"virtualClusters": [cluster]}))  # JSON is YAML
        child = self._child(KROXYLICIOUS, [jars.java(), "-cp", classpath, "KroxyliciousMain", settings])
        child.wait_for("kroxylicious ready", _READY_S)
        return Arm(KROXYLICIOUS, f"127.0.0.1:{port}", broker, child)

    def _sluicegate(self) -> Arm:
        broker, port = self.broker, free_ports(8)
        entry = {
            "name": "benchmark",
            "system": "kafka",
            "bootstrap": [broker.bootstrap],
            "listen": {"port": port},
        }
        policies = {
            "broker": {
                "max_message_size": "4MiB",
                "max_publish_rate_bytes": "2GiB/s",
                "max_producers_per_topic": 100,
            },
            "topics": [{"name": LIMITED_TOPICS, "max_publish_rate_bytes": LIMIT_BYTES_PER_S}],
        }
        child = start_gate(self.stack, self.directory / "gateway", entry, policies)
        return Arm(SLUICEGATE, f"127.0.0.1:{port}", broker, child)

    def _strimzi(self) -> Arm:
        port = free_port()
        broker = start_broker(
            self.stack,
            self.directory / "kafka-strimzi",
            port=port,
            extra_jars=jars.strimzi_plugin(),
            properties={
                "client.quota.callback.class": "io.strimzi.kafka.quotas.StaticQuotaCallback",
                "client.quota.callback.static.produce": str(LIMIT_BYTES_PER_S),
                "client.quota.callback.static.kafka.admin.bootstrap.servers": f"127.0.0.1:{port}",
            },
        )
        return Arm(STRIMZI, broker.bootstrap, broker)

    def _child(self, name: str, argv: list[str | Path]) -> Child:
        return self.stack.enter_context(Child(name, argv, self.directory / f"{name}.log"))


_STARTERS: dict[str, Callable[[Bench], Arm]] = {
    DIRECT: Bench._direct,  # noqa: SLF001 -- the table belongs to the class
    HAPROXY: Bench._haproxy,  # noqa: SLF001
    KROXYLICIOUS: Bench._kroxylicious,  # noqa: SLF001
    SLUICEGATE: Bench._sluicegate,  # noqa: SLF001
    STRIMZI: Bench._strimzi,  # noqa: SLF001
}
