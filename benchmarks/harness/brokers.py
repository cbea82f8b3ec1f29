"""A real Kafka node on 127.0.0.1, and a stand-in for one."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from benchmarks.harness.processes import free_port, start_module
from sluicegate_reports.runner.brokers.kafka import START_S, KafkaNode


@dataclass(slots=True)
class MeasuredKafka(KafkaNode):
    """A Kafka node whose stored batches are looked at."""

    jvm: Sequence[str] = ("-Xms512m", "-Xmx512m", "-XX:+UseG1GC")

    def __post_init__(self) -> None:
        # Topics of finished runs free their disk space at once.
        self.properties = {"log.segment.delete.delay.ms": "1000", **self.properties}

    @property
    def data(self) -> Path:
        """Folder of the partitions' logs."""
        return Path(self.properties.get("log.dirs", self.directory / "data"))

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


def start_stand_in(stack: ExitStack, directory: Path) -> str:
    """Start a stand-in for a Kafka broker, which takes no memory; it ends with `stack`.

    :param directory: for its output; made if it is missing.
    :return: its address, `host:port`.
    """
    port = free_port()
    start_module(stack, directory, "stand_in", str(port)).wait_for_port(port, START_S)
    return f"127.0.0.1:{port}"
