"""A real Kafka node for the benchmarks, on 127.0.0.1 and in a directory that goes away with it."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from benchmarks.harness import jars
from benchmarks.harness.processes import Child, free_port, run_tool

_START_S = 90


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
    directory.mkdir(parents=True)
    controller = free_port()
    listeners = {"DIRECT": (port, port)}
    listeners |= {f"PROXY{bind}": (bind, shown) for bind, shown in (advertised or {}).items()}
    settings = directory / "server.properties"
    lines = _properties(directory, listeners, controller) | dict(properties or {})
    settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    classpath = ":".join(filter(None, [jars.kafka(), extra_jars]))
    base = [jars.java(), "-Xms512m", "-Xmx512m", "-XX:+UseG1GC", "-cp", classpath]
    cluster = "MkU3OEVBNTcwNTJENDM2Qk"
    run_tool([*base, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", settings], timeout_s=60)
    child = stack.enter_context(Child("kafka", [*base, "kafka.Kafka", settings], directory / "broker.log"))
    child.wait_for_port(port, _START_S)
    return RunningBroker(child, port, directory / "data")


def _properties(directory: Path, listeners: Mapping[str, tuple[int, int]], controller: int) -> dict[str, str]:
    names = [*listeners, "CONTROLLER"]
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "DIRECT",
        "listeners": ",".join(
            [f"{name}://127.0.0.1:{bind}" for name, (bind, _) in listeners.items()]
            + [f"CONTROLLER://127.0.0.1:{controller}"]
        ),
        "advertised.listeners": ",".join(f"{name}://127.0.0.1:{to}" for name, (_, to) in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "log.dirs": os.fspath(directory / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        # Topics of finished runs free their disk space at once.
        "log.segment.delete.delay.ms": "1000",
    }
