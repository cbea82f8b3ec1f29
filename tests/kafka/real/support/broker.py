"""Real Kafka nodes for tests: on 127.0.0.1, with little memory, in directories that pytest removes."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.real.archives import archived
from tests.real.certificates import Authority, Identity
from tests.real.ports import free_ports
from tests.waiting import LONG_S, until

from sluicegate_reports.runner.brokers.jars import KAFKA
from sluicegate_reports.runner.brokers.kafka import SMALL_JVM, launch_node, node_properties
from sluicegate_reports.runner.brokers.processes import Child
from sluicegate_reports.runner.brokers.restartable import Restartable

_JVM = (
    *SMALL_JVM,
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
)


@dataclass(frozen=True, slots=True)
class Security:
    """What a node asks of clients on its other listeners; the plain one is always there."""

    authority: Authority
    server: Identity
    users: Mapping[str, str]
    """Passwords by user, for SASL/PLAIN."""

    def client_tls(self, **more: str) -> dict[str, str]:
        """librdkafka's settings for the `tls` listener."""
        return {"security.protocol": "SSL", "ssl.ca.location": os.fspath(self.authority.certificate)} | more

    def client_sasl(self, user: str, *, tls: bool = False) -> dict[str, str]:
        """librdkafka's settings for the `sasl` listener, or for `sasl_tls`."""
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}
        settings |= {"sasl.username": user, "sasl.password": self.users[user]}
        return settings | self.client_tls() | {"security.protocol": "SASL_SSL"} if tls else settings


@dataclass(frozen=True, slots=True)
class Ports:
    """The listeners of a node. All but `controller` advertise themselves."""

    plain: int
    controller: int
    tls: int
    sasl: int
    sasl_tls: int


@dataclass(slots=True)
class KafkaBroker(Restartable):
    """One node. It may be stopped or killed and started again: same data, and same ports unless it moves."""

    directory: Path
    node_id: int = 1
    security: Security | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    """Further lines of server.properties; they win over the fixture's own."""
    voters: Mapping[int, int] | None = None
    """Controller port by node id, when there are more nodes than this one."""
    ports: Ports = field(default_factory=lambda: Ports(*free_ports(5)))
    jvm: Sequence[str] | None = None
    """Options of the Java virtual machine besides `_JVM`; None for those of `archived_kafka`."""
    _starts: int = 0

    stop_s: ClassVar[float] = LONG_S

    @property
    def bootstrap(self) -> str:
        """Address of the listener without TLS or SASL."""
        return f"127.0.0.1:{self.ports.plain}"

    @property
    def log(self) -> Path:
        """What the node has printed since its last start."""
        return self.directory / f"start-{self._starts}.log"

    def begin(self) -> Child:
        """Format the storage, if that is still to do, and start the process.

        :raises UnavailableError: if there is no Java or no Kafka.
        """
        self._starts += 1
        lines = self._own_properties() | _security_properties(self.security) | dict(self.properties)
        more = archived_kafka() if self.jvm is None else self.jvm
        return launch_node(self.directory, lines, self.log, jvm=[*_JVM, *more])

    def wait(self) -> None:
        """Return once the node accepts clients.

        :raises UnavailableError: if it ends or is not ready in time; the text holds its last lines.
        """
        self.child.wait_for("Kafka Server started", LONG_S)

    def move(self) -> None:
        """Have another port for clients without TLS or SASL from the next start on."""
        assert self._child is None, f"node {self.node_id} is running"
        self.ports = replace(self.ports, plain=free_ports(1)[0])

    def log_tail(self, lines: int = 40) -> str:
        """The last lines that the node has printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self._starts else ""

    def __exit__(self, *_: object) -> None:
        """End it the hard way: its data are thrown away."""
        if self.running:
            self.kill()

    def _own_properties(self) -> dict[str, str]:
        listeners = {"PLAIN": self.ports.plain}
        if self.security is not None:
            listeners |= {"TLS": self.ports.tls, "SASL": self.ports.sasl, "SASLTLS": self.ports.sasl_tls}
        both = {name: (port, port) for name, port in listeners.items()}
        voters = self.voters or {self.node_id: self.ports.controller}
        return node_properties(self.directory, both, voters, self.node_id) | {
            "listener.security.protocol.map": (
                "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL"
            ),
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "share.coordinator.state.topic.num.partitions": "3",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.enable": "false",
            # Batches that tests make by hand are of 1970.
            "log.retention.ms": "-1",
        }


def archived_kafka() -> Sequence[str]:
    """Java options for brokers, tools and clients of Kafka, with whose jars their classpath must begin."""
    return archived(KAFKA, _record)


def _record(directory: Path, option: str) -> None:
    node = KafkaBroker(directory / "node", jvm=[option])
    node.start()
    node.stop()


def _security_properties(security: Security | None) -> dict[str, str]:
    if security is None:
        return {}
    users = " ".join(f'user_{user}="{password}"' for user, password in security.users.items())
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
    lines = {
        "ssl.keystore.type": "PEM",
        # In the file itself: Kafka 2.8 takes no file whose key has no password.
        "ssl.keystore.key": _one_line(security.server.key),
        "ssl.keystore.certificate.chain": _one_line(security.server.certificate),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": os.fspath(security.authority.certificate),
        "ssl.client.auth": "requested",
    }
    for listener in ("sasl", "sasltls"):
        lines[f"listener.name.{listener}.sasl.enabled.mechanisms"] = "PLAIN"
        lines[f"listener.name.{listener}.plain.sasl.jaas.config"] = login
    return lines


def _one_line(file: Path) -> str:
    """What a file holds, as Java's properties write it."""
    return file.read_text().replace("\n", "\\n")


class KafkaCluster:
    """Several nodes that are broker and controller at once, each topic's leaders spread over them."""

    def __init__(self, directory: Path, size: int = 3) -> None:
        free = free_ports(5 * size)
        ports = {node_id: Ports(*free[5 * node_id - 5 : 5 * node_id]) for node_id in range(1, size + 1)}
        voters = {node_id: own.controller for node_id, own in ports.items()}
        self.nodes: Sequence[KafkaBroker] = [
            KafkaBroker(directory / f"node-{node_id}", node_id, voters=voters, ports=own)
            for node_id, own in ports.items()
        ]

    @property
    def bootstrap(self) -> str:
        """Addresses of all nodes."""
        return ",".join(node.bootstrap for node in self.nodes)

    def start(self) -> None:
        """Start all nodes and return once each sees them all."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.wait()
        for node in self.nodes:
            wait_for_nodes(node.bootstrap, len(self.nodes))

    def stop(self) -> None:
        """End what runs, the hard way: a clean end would wait for a quorum that is going away."""
        for node in self.nodes:
            if node.running:
                node.kill()


def wait_for_nodes(bootstrap: str, count: int) -> None:
    """Return once the metadata at `bootstrap` names `count` brokers."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def seen() -> int:
        with suppress(KafkaException):
            return len(admin.list_topics(timeout=5).brokers)
        return 0

    until(lambda: seen() == count, f"{bootstrap!r} names {count} brokers")
