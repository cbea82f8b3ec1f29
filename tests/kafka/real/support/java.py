"""The Java tools that come with Kafka, run to their end."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.harness.processes import UnavailableError, run_tool
from tests.kafka.real.support.broker import archived_kafka
from tests.kafka.real.support.history import ClientLog, Stored
from tests.real.java import frugal_jvm
from tests.waiting import LONG_S

from sluicegate_reports.runner.brokers import jars

_TOOL_S = 2 * LONG_S


def why_unavailable() -> str | None:
    """What is missing for a real broker, in words; None if all is there."""
    try:
        jars.java()
        jars.classpath(jars.KAFKA)
    except UnavailableError as error:
        return str(error)
    return None


def run_java_tool(name: str, *arguments: str, timeout_s: float = _TOOL_S) -> str:
    """Run a class of `org.apache.kafka.tools` and return what it printed.

    :raises RuntimeError: if it fails or takes longer than `timeout_s`.
    """
    heap = [*frugal_jvm(256), *archived_kafka()]
    return run_tool(
        [jars.java(), *heap, "-cp", jars.classpath(jars.KAFKA), f"org.apache.kafka.tools.{name}", *arguments],
        timeout_s,
    )


@dataclass(frozen=True, slots=True)
class JavaProduced:
    """What ProducerPerformance reports."""

    sent: int
    """Records that were confirmed."""
    records_per_s: float
    errors: list[str]
    """Class names of the exceptions that sends ended with, one for each failed record."""
    output: str

    def log(self, lane: str = "java") -> ClientLog:
        """A client log of a run without errors (which of them failed, the tool does not tell)."""
        assert not self.errors, f"sends failed: {self.errors[:3]}"
        log = ClientLog()
        for number in range(self.sent):
            log.ack(log.send(lane, number))
        return log


def produce_with_java(
    bootstrap: str,
    topic: str,
    records: int,
    *,
    record_bytes: int | None = None,
    records_per_s: int = -1,
    properties: Mapping[str, str] | None = None,
    timeout_s: float = _TOOL_S,
) -> JavaProduced:
    """Run ProducerPerformance.

    :param record_bytes: size of each value; None for values that count up from 0 (see `as_lane`).
    :param records_per_s: pace; -1 for as fast as possible.
    """
    payload = ["--payload-monotonic"] if record_bytes is None else ["--record-size", str(record_bytes)]
    pace = ["--num-records", str(records), "--throughput", str(records_per_s)]
    extra = [f"{key}={value}" for key, value in (properties or {}).items()]
    output = run_java_tool(
        "ProducerPerformance",
        *["--bootstrap-server", bootstrap, "--topic", topic],
        *pace,
        *payload,
        *(["--command-property", *extra] if extra else []),
        timeout_s=timeout_s,
    )
    summary = re.findall(r"(\d+) records sent, ([\d.]+) records/sec", output)
    if not summary:
        raise RuntimeError(f"ProducerPerformance printed no summary: {output[-2000:]}")
    errors = re.findall(r"^(?:Caused by: )?(org\.apache\.kafka\.common\.errors\.\w+)", output, re.MULTILINE)
    return JavaProduced(int(summary[-1][0]), float(summary[-1][1]), errors, output)


def as_lane(stored: list[Stored], lane: str = "java") -> list[Stored]:
    """Rewrite values that count up as those of a lane, so that the history checker can read them."""
    return [
        Stored(one.partition, one.offset, f"{lane}:{int(one.value)}".encode(), one.timestamp_ms)
        for one in stored
    ]


def consume_with_java(
    bootstrap: str, topic: str, records: int, *, properties: Mapping[str, str] | None = None
) -> int:
    """Run ConsumerPerformance from the start of a topic; returns the number of records that it got."""
    extra = [f"{key}={value}" for key, value in (properties or {}).items()]
    output = run_java_tool(
        "ConsumerPerformance",
        *["--bootstrap-server", bootstrap, "--topic", topic],
        *["--num-records", str(records), "--timeout", str(LONG_S * 1_000)],
        *[part for pair in extra for part in ("--command-property", pair)],
    )
    rows = [
        [cell.strip() for cell in line.split(",")] for line in output.splitlines() if line.count(",") >= 9
    ]
    if len(rows) < 2:
        raise RuntimeError(f"ConsumerPerformance printed no table: {output[-2000:]}")
    return int(dict(zip(rows[0], rows[-1], strict=True))["data.consumed.in.nMsg"])
