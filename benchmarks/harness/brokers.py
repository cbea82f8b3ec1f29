"""Real Kafka nodes on 127.0.0.1, for the benchmarks and for the tests on a real broker."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from benchmarks.harness.processes import free_port
from sluicegate_reports.runner.brokers.kafka import START_S, launch_node, node_properties
from sluicegate_reports.runner.brokers.processes import Child

__all__ = ["START_S", "RunningBroker", "start_broker", "launch_node", "node_properties"]

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
    child.wait_for_port(port, START_S)
    return RunningBroker(child, port, directory / "data")
