"""Real Kafka nodes on 127.0.0.1."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.ports import free_port
from sluicegate_reports.runner.brokers.processes import Child, run_tool
from sluicegate_reports.runner.brokers.restartable import Restartable

START_S = 600
"""A node takes some seconds; a machine that is slow and busy, minutes."""
SMALL_JVM = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For nodes that live for seconds and share two cores."""
_CLUSTER_ID = "c2x1aWNlZ2F0ZS10ZXN0cw"


def launch_node(
    directory: Path, lines: Mapping[str, str], log: Path, *, jvm: Sequence[str], extra_jars: str = ""
) -> Child:
    """Start a Kafka node, with its storage formatted if necessary; the caller waits until it is ready.

    :param directory: the node's own; made if it is missing.
    :param lines: server.properties, which may differ from those of the start before.
    :param log: file for what it prints.
    :param jvm: options of the Java virtual machine.
    :param extra_jars: classpath to add, such as that of a quota plug-in.
    :raises UnavailableError: if there is no Java or no Kafka.
    """
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "server.properties"
    is_new = not settings.exists()
    settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    classpath = ":".join(filter(None, [jars.classpath(jars.KAFKA), extra_jars]))
    base = [jars.java(), *jvm, "-cp", classpath]
    # Formatting again is refused, and a restarted node keeps its data.
    if is_new:
        formatting = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", os.fspath(settings)]
        run_tool([*base, *formatting], timeout_s=START_S)
    return Child(f"kafka node {lines['node.id']}", [*base, "kafka.Kafka", settings], log)


def node_properties(
    directory: Path, listeners: Mapping[str, tuple[int, int]], voters: Mapping[int, int], node_id: int = 1
) -> dict[str, str]:
    """Lines of server.properties for a node on 127.0.0.1 that is broker and controller.

    :param directory: the node's own; its data lie in `data` there.
    :param listeners: port to bind and port to advertise by name; the first is for the nodes themselves.
    :param voters: controller port by node id, of all nodes of the cluster.
    """
    names = [*listeners, "CONTROLLER"]
    copies = str(len(voters))
    bound = [f"{name}://127.0.0.1:{bind}" for name, (bind, _) in listeners.items()]
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(f"{node}@127.0.0.1:{port}" for node, port in voters.items()),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": names[0],
        "listeners": ",".join([*bound, f"CONTROLLER://127.0.0.1:{voters[node_id]}"]),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{to}" for name, (_, to) in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "log.dirs": os.fspath(directory / "data"),
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }


@dataclass(slots=True)
class KafkaNode(Restartable):
    """One node, broker and controller, which may be killed and started again on its data."""

    directory: Path
    properties: Mapping[str, str] = field(default_factory=dict)
    """Further lines of server.properties; they win over those that stand here."""
    listeners: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Further listeners, see `node_properties`."""
    jvm: Sequence[str] = SMALL_JVM
    extra_jars: str = ""
    port: int = field(default_factory=free_port)
    """Of the listener that advertises itself."""
    controller_port: int = field(default_factory=free_port)
    _starts: int = 0

    @property
    def bootstrap(self) -> str:
        """Address for clients."""
        return f"127.0.0.1:{self.port}"

    def begin(self) -> Child:
        """Start the process.

        :raises UnavailableError: if there is no Java or no Kafka.
        """
        self._starts += 1
        listeners = {"PLAIN": (self.port, self.port), **self.listeners}
        lines = node_properties(self.directory, listeners, {1: self.controller_port})
        lines |= {"offsets.topic.num.partitions": "1", **self.properties}
        log = self.directory / f"start-{self._starts}.log"
        return launch_node(self.directory, lines, log, jvm=self.jvm, extra_jars=self.extra_jars)

    def wait(self) -> None:
        """Return once the node accepts clients.

        :raises UnavailableError: if it ends or is not ready in time; the text holds its last lines.
        """
        self.child.wait_for_port(self.port, START_S)
