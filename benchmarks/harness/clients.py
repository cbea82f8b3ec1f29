"""The Java performance tools that come with Kafka, and topics for them to work on."""

import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.harness.processes import run_tool
from sluicegate_reports.runner.brokers import jars

_TOOL_TIMEOUT_S = 300
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Produced:
    """What ProducerPerformance reports."""

    records_per_s: float
    mib_per_s: float
    p50_ms: float
    p99_ms: float


def create_topic(bootstrap: str, name: str) -> None:
    """Make a topic of one partition: one batch in each Produce request, the dearest case for a proxy."""
    admin = _admin(bootstrap)
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)


@contextmanager
def fresh_topic(bootstrap: str, prefix: str) -> Iterator[str]:
    """A topic like those of `create_topic`, deleted afterwards.

    :param bootstrap: the broker's own address, not a proxy's.
    """
    name = f"{prefix}-{next(_numbers)}"
    create_topic(bootstrap, name)
    try:
        yield name
    finally:
        try:
            admin = _admin(bootstrap)
            admin.delete_topics([name])[name].result(30)
        except KafkaException as error:
            print(f"topic {name!r} was left behind: {error}")


def produce(
    bootstrap: str,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    properties: Mapping[str, str] | None = None,
    records_per_s: int = -1,
    warmup_records: int = 0,
) -> Produced:
    """Run ProducerPerformance to its end.

    :param records: how many to send, those of the warm-up included.
    :param records_per_s: pace; -1 for as fast as possible.
    :param warmup_records: first records that the reported figures leave out.
    :raises RuntimeError: if the tool fails, or any record does.
    """
    argv = [*_java("ProducerPerformance"), "--bootstrap-server", bootstrap, "--topic", topic]
    argv += ["--num-records", str(records), "--record-size", str(record_bytes)]
    argv += ["--throughput", str(records_per_s), "--reporting-interval", "3600000"]
    if warmup_records:
        argv += ["--warmup-records", str(warmup_records)]
    if properties:
        argv += ["--command-property", *(f"{key}={value}" for key, value in properties.items())]
    return parse_produced(run_tool(argv, _TOOL_TIMEOUT_S), records - warmup_records)


def parse_produced(output: str, records: int) -> Produced:
    """Read the tool's last summary line.

    :raises RuntimeError: if it is missing or counts fewer records than were to be sent.
    """
    summaries = re.findall(
        r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\).*?(\d+) ms 50th.*?(\d+) ms 99th",
        output,
    )
    if not summaries or int(summaries[-1][0]) < records or "Exception" in output:
        raise RuntimeError(f"ProducerPerformance did not send all {records} records: {output[-2000:]}")
    _, rate, mib, p50, p99 = summaries[-1]
    return Produced(float(rate), float(mib), float(p50), float(p99))


def consume(bootstrap: str, topic: str, records: int) -> float:
    """Run ConsumerPerformance from the start of a topic; returns MiB/s while fetching.

    :raises RuntimeError: if the tool fails or gets fewer records.
    """
    argv = [*_java("ConsumerPerformance"), "--bootstrap-server", bootstrap, "--topic", topic]
    argv += ["--num-records", str(records), "--timeout", "30000"]
    return parse_consumed(run_tool(argv, _TOOL_TIMEOUT_S), records)


def parse_consumed(output: str, records: int) -> float:
    """Read the tool's table; raises RuntimeError if it got fewer than `records`."""
    lines = [
        [cell.strip() for cell in line.split(",")] for line in output.splitlines() if line.count(",") >= 9
    ]
    if len(lines) < 2 or len(lines[-1]) != len(lines[0]):
        raise RuntimeError(f"ConsumerPerformance printed no table: {output[-2000:]}")
    row = dict(zip(lines[0], lines[-1], strict=True))
    if int(row["data.consumed.in.nMsg"]) < records:
        raise RuntimeError(f"ConsumerPerformance got {row['data.consumed.in.nMsg']} of {records} records")
    return float(row["fetch.MB.sec"])


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})


def _java(tool: str) -> list[str | Path]:
    return [
        jars.java(),
        "-Xms512m",
        "-Xmx512m",
        "-cp",
        jars.classpath(jars.KAFKA),
        f"org.apache.kafka.tools.{tool}",
    ]
