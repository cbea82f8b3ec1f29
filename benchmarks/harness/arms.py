"""The ways from a client to the broker that are compared."""

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness import isolation, jars
from benchmarks.harness.brokers import RunningBroker, start_broker
from benchmarks.harness.clients import create_topic, produce
from benchmarks.harness.processes import Child, UnavailableError, free_port, free_ports

DIRECT = "direct"
HAPROXY = "haproxy"
KROXYLICIOUS = "kroxylicious"
SLUICEGATE = "sluicegate"
STRIMZI = "strimzi"
ENGINE = "engine"
"""No way to a broker: the scenario measures the engine in this process."""
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
    """The arms, started when a scenario first asks for them and ended with `stack`."""

    stack: ExitStack
    directory: Path
    _haproxy_ports: tuple[int, int] = field(default_factory=lambda: (free_port(), free_port()))
    _broker: RunningBroker | UnavailableError | None = None
    _arms: dict[str, Arm | UnavailableError] = field(default_factory=dict)
    _filled: set[str] = field(default_factory=set)

    @property
    def broker(self) -> RunningBroker:
        """The one node behind every arm but Strimzi's."""
        if self._broker is None:
            bind, shown = self._haproxy_ports
            try:
                self._broker = start_broker(
                    self.stack, self.directory / "kafka", port=free_port(), advertised={bind: shown}
                )
            except UnavailableError as reason:
                self._broker = reason
        if isinstance(self._broker, UnavailableError):
            raise self._broker
        return self._broker

    def arm(self, name: str) -> Arm:
        """The arm of that name.

        :raises UnavailableError: if a program that it needs is missing or did not start; remembered.
        """
        if name not in self._arms:
            try:
                self._arms[name] = _STARTERS[name](self)
            except UnavailableError as reason:
                self._arms[name] = reason
        found = self._arms[name]
        if isinstance(found, UnavailableError):
            raise found
        return found

    def fresh_arm(self, name: str) -> Arm:
        """The arm with its proxy started anew, for figures that must not depend on what it did before."""
        old = self._arms.pop(name, None)
        if isinstance(old, Arm) and old.proxy is not None:
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
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
        if program is None:
            raise UnavailableError("haproxy is not installed (Debian package haproxy)")
        broker, (upstream, port) = self.broker, self._haproxy_ports
        settings = self.directory / "haproxy.cfg"
        settings.write_text(
            "global\n  maxconn 8000\n"
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 10m\n  timeout server 10m\n"
            f"listen kafka\n  bind 127.0.0.1:{port}\n  server node 127.0.0.1:{upstream}\n"
        )
        child = self._child(HAPROXY, [program, "-db", "-f", settings])
        child.wait_for_port(port, _READY_S)
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
        program = Path(sys.executable).with_name("sluicegate")
        if not program.exists():
            raise UnavailableError(
                f"{program} is missing: install this project into the Python that runs this"
            )
        broker, port = self.broker, free_ports(8)
        settings = self.directory / "gateway.yaml"
        settings.write_text(json.dumps(self._gateway(broker, port), indent=2))  # JSON is YAML
        child = self._child(SLUICEGATE, [program, "run", "-c", settings])
        child.wait_for("sluicegate ready:", _READY_S)
        return Arm(SLUICEGATE, f"127.0.0.1:{port}", broker, child)

    def _gateway(self, broker: RunningBroker, port: int) -> dict[str, object]:
        return {
            "brokers": [
                {
                    "name": "benchmark",
                    "system": "kafka",
                    "bootstrap": [broker.bootstrap],
                    "listen": {"port": port},
                }
            ],
            "policies": {
                "broker": {
                    "max_message_size": "4MiB",
                    "max_publish_rate_bytes": "2GiB/s",
                    "max_producers_per_topic": 100,
                },
                "topics": [{"name": LIMITED_TOPICS, "max_publish_rate_bytes": LIMIT_BYTES_PER_S}],
            },
            "admin": {"port": free_port()},
            "state_dir": str(self.directory / "gateway"),
        }

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
