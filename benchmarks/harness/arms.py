"""The ways from a client to the broker that are compared."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import isolation
from benchmarks.harness.brokers import MeasuredKafka
from benchmarks.harness.clients import create_topic, produce
from benchmarks.harness.grpc_arms import GrpcArms
from benchmarks.harness.jars import kroxylicious
from benchmarks.harness.names import DIRECT, HAPROXY, KROXYLICIOUS, SLUICEGATE, STRIMZI
from benchmarks.harness.processes import Child, UnavailableError, free_port, free_ports
from benchmarks.harness.proxies import Gate, start_haproxy
from benchmarks.harness.pulsar_arms import PulsarArms
from benchmarks.harness.starting import Arms
from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.doors.native_kafka import strimzi_properties

PROXIES = (DIRECT, HAPROXY, KROXYLICIOUS, SLUICEGATE)

LIMITED_TOPICS = "limited-*"
LIMIT_BYTES_PER_S = 10_000_000
"""The publish rate that the rate scenario sets, in bytes of record batches per second."""
_READY_S = 60


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to a broker; `proxy` is the process that is measured, None where there is none."""

    bootstrap: str
    broker: MeasuredKafka
    proxy: Child | None = None


class Bench(Arms[Arm]):
    """Kafka's arms, and those of the other brokers."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        super().__init__(stack, directory)
        self.pulsar = PulsarArms(stack, directory / "pulsar")
        self.grpc = GrpcArms(stack, directory / "grpc")
        self._haproxy_ports = free_port(), free_port()
        self._filled: set[str] = set()

    @property
    def broker(self) -> MeasuredKafka:
        """The one node behind every arm but Strimzi's."""
        return self.once("node", self._start_broker)

    def _start_broker(self) -> MeasuredKafka:
        node = MeasuredKafka(self.directory / "kafka", listeners={HAPROXY.upper(): self._haproxy_ports})
        return self.stack.enter_context(node)

    def start(self, name: str) -> Arm:
        """See `Arms`."""
        starters = {
            DIRECT: self._direct,
            HAPROXY: self._haproxy,
            KROXYLICIOUS: self._kroxylicious,
            SLUICEGATE: self._sluicegate,
            STRIMZI: self._strimzi,
        }
        return starters[name]()

    def filled_topic(self, records: int, record_bytes: int) -> str:
        """A topic that holds at least so many records, written once and without a proxy."""
        name = f"filled-{records}-{record_bytes}"
        if name not in self._filled:
            create_topic(self.broker.bootstrap, name)
            produce(self.broker.bootstrap, name, records=records, record_bytes=record_bytes)
            self._filled.add(name)
        return name

    def _direct(self) -> Arm:
        return Arm(self.broker.bootstrap, self.broker)

    def _haproxy(self) -> Arm:
        broker, (upstream, port) = self.broker, self._haproxy_ports
        child = start_haproxy(self.stack, self.directory, port=port, upstream=upstream)
        return Arm(f"127.0.0.1:{port}", broker, child)

    def _kroxylicious(self) -> Arm:
        if not isolation.isolated():
            raise UnavailableError(
                "it binds every interface: needs unshare, ip (iproute2) and the right to use them"
            )
        classpath, broker, port = kroxylicious(), self.broker, free_ports(4)
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
        argv: list[str | Path] = [jars.java(), "-cp", classpath, "KroxyliciousMain", settings]
        child = self.stack.enter_context(Child(KROXYLICIOUS, argv, self.directory / f"{KROXYLICIOUS}.log"))
        child.wait_for("kroxylicious ready", _READY_S)
        return Arm(f"127.0.0.1:{port}", broker, child)

    def _sluicegate(self) -> Arm:
        policies = {
            "broker": {
                "max_message_size": "4MiB",
                "max_publish_rate_bytes": "2GiB/s",
                "max_producers_per_topic": 100,
            },
            "topics": [{"name": LIMITED_TOPICS, "max_publish_rate_bytes": LIMIT_BYTES_PER_S}],
        }
        broker = self.broker
        gate = Gate(self.stack, self.directory / "gateway", "kafka", [broker.bootstrap], policies).wait()
        return Arm(gate.address, broker, gate.child)

    def _strimzi(self) -> Arm:
        port = free_port()
        quota = strimzi_properties(LIMIT_BYTES_PER_S, 0, port)
        node = MeasuredKafka(
            self.directory / "kafka-strimzi", quota, extra_jars=jars.classpath(jars.STRIMZI), port=port
        )
        broker = self.stack.enter_context(node)
        return Arm(broker.bootstrap, broker)
