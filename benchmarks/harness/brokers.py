"""Real Kafka nodes on 127.0.0.1, for the benchmarks and for the tests on a real broker."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from benchmarks.harness import jars
from benchmarks.harness.processes import Child, free_port, run_tool

_START_S = 90
_CLUSTER_ID = "c2x1aWNlZ2F0ZS10ZXN0cw"
_JVM = ("-Xms512m", "-Xmx512m", "-XX:+UseG1GC")


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A Kafka node that accepts clients."""

    child: Child
    port: int
    """Port of the listener that advertises itself: the way without any proxy."""
    data: Path
    """Folder of the partitions' logs."""

    @property
    def bootstrap(self) -> str:
        """Address for clients that come without a proxy."""
        return f"127.0.0.1:{self.port}"

    def bytes_per_record(self, topic: str) -> float:
        """Mean bytes that a record of partition 0 takes with its share of batch headers.

        Batches are stored as they came over the wire, so this is what a byte rate counts.
        """
        stored = sum(segment.stat().st_size for segment in self.data.glob(f"{topic}-0/*.log"))
        client = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "benchmark"})
        try:
            _, end = client.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        finally:
            client.close()
        return stored / end


def start_broker(
    stack: ExitStack,
    directory: Path,
    *,
    port: int,
    advertised: Mapping[int, int] | None = None,
    extra_jars: str = "",
    properties: Mapping[str, str] | None = None,
) -> RunningBroker:
    """Format and start a node; it ends with `stack`.

    :param port: a free port for the listener without a proxy.
    :param advertised: further listeners, as port to bind and port to advertise (a TCP proxy's).
    :param extra_jars: classpath to add, such as that of a quota plug-in.
    :param properties: further lines of server.properties.
    :raises UnavailableError: if there is no Java, no Kafka, or the node does not start.
    """
    listeners = {"DIRECT": (port, port)}
    listeners |= {f"PROXY{bind}": (bind, shown) for bind, shown in (advertised or {}).items()}
    # Topics of finished runs free their disk space at once.
    own = {"log.segment.delete.delay.ms": "1000", "offsets.topic.num.partitions": "1"}
    lines = node_properties(directory, listeners, {1: free_port()}) | own | dict(properties or {})
    log = directory / "broker.log"
    child = stack.enter_context(launch_node(directory, lines, log, jvm=_JVM, extra_jars=extra_jars))
    child.wait_for_port(port, _START_S)
    return RunningBroker(child, port, directory / "data")


def launch_node(
    directory: Path, lines: Mapping[str, str], log: Path, *, jvm: Sequence[str], extra_jars: str = ""
) -> Child:
    """Start a Kafka node, and format its storage before if that is still to do; who calls waits for it.

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
    classpath = ":".join(filter(None, [jars.kafka(), extra_jars]))
    base = [jars.java(), *jvm, "-cp", classpath]
    if is_new:
        formatting = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", os.fspath(settings)]
        run_tool([*base, *formatting], timeout_s=_START_S)
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
