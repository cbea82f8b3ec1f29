"""A small comparison run on disk with known figures, made by the oracle without brokers."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.reports import oracle

from sluicegate.decisions.schema import SCHEMA
from sluicegate.decisions.spool import partition
from sluicegate_reports.model.observations import Event, Observation, ObservationLog, Role
from sluicegate_reports.model.results import Arm, Phase, RunFacts
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS, Run, Trial, write_run

RUN = "r1"
PHASE = "steady"
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
LENGTH_S = 8
RATE = 50
SIZE = 1_000
START_US = int(START.timestamp()) * 1_000_000
TOPIC, NATIVE_TOPIC, SIZES_TOPIC = "orders-proxy", "orders-native", "sizes-proxy"
_EVERY_US = 10_000
_TOLD_US = 3_000


def decision(at_us: int, action: str = "allow", **changes: Any) -> dict[str, Any]:
    """A row of a decision log; `at_us` from START."""
    return {
        "time": START_US + at_us,
        "run": RUN,
        "system": "kafka",
        "door": "proxy",
        "gateway": "main",
        "principal": "User:a",
        "client": "p1@127.0.0.1:1",
        "namespace": "default",
        "topic": TOPIC,
        "operation": "publish",
        "policy": None if action == "allow" else "max_publish_rate",
        "action": action,
        "factor": 1.0,
        "delay": 0,
        "bytes": 100,
        "messages": 1,
        "decision_cost": 900 if at_us % 100_000 < 10_000 else None,
        "policy_version": 1,
        "decisions": 1,
        "window": 0,
        **changes,
    }


def write_decisions(directory: Path, rows: list[dict[str, Any]], name: str = "part-main-1.parquet") -> Path:
    """Write rows as a file of the log; what a row lacks is null."""
    folder = partition(directory, RUN, "kafka")
    folder.mkdir(parents=True, exist_ok=True)
    arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in SCHEMA]
    pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), folder / name, row_group_size=100)
    return folder / name


def make_run(directory: Path, gate_ahead_us: int = 0) -> Run:
    """A run of one phase: a perfect gate beside a native limit that lets a fifth too much through.

    :param gate_ahead_us: by how much the gate's clock is ahead of the clients'.
    """
    asked = [(at_us, 1) for at_us in range(0, LENGTH_S * 1_000_000, _EVERY_US)]
    passed = oracle.admissions(asked, RATE, RATE)
    rows = [
        decision(at_us + 1_000 + gate_ahead_us, "allow" if ok else "reject")
        for (at_us, _), ok in zip(asked, passed, strict=True)
    ]
    write_decisions(directory / DECISIONS, rows)
    with ObservationLog(directory / OBSERVATIONS, RUN, "kafka", "proxy", PHASE) as log:
        _play(log.add, TOPIC, passed)
        _attach(log.add, TOPIC)
        _sizes(log.add, SIZES_TOPIC)
    sloppy = oracle.admissions(asked, RATE * 1.2, RATE)
    with ObservationLog(directory / OBSERVATIONS, RUN, "kafka", "native", PHASE) as log:
        _play(log.add, NATIVE_TOPIC, sloppy)
    run = Run(_facts(), tuple(_trials()))
    write_run(directory, run)
    return run


def _play(add: Callable[[Observation], None], topic: str, passed: list[bool]) -> None:
    for sequence, ok in enumerate(passed):
        at_us = START_US + sequence * _EVERY_US
        sent = Observation(at_us, "p1", Role.PRODUCER, topic, Event.SENT, sequence, bytes=100)
        add(sent)
        answer = Event.ACKNOWLEDGED if ok else Event.REFUSED
        add(sent._replace(time=at_us + _TOLD_US, event=answer, latency_ns=_TOLD_US * 1_000))
        if ok:
            add(
                Observation(
                    at_us + 260_000,
                    "c1",
                    Role.CONSUMER,
                    topic,
                    Event.RECEIVED,
                    sequence,
                    bytes=100,
                    subscription="s1",
                    published=at_us,
                    producer="p1",
                )
            )


def _attach(add: Callable[[Observation], None], topic: str) -> None:
    for number, event in enumerate((Event.ATTACHED, Event.ATTACHED, Event.ATTACH_REFUSED)):
        add(Observation(START_US + number, f"p{number}", Role.PRODUCER, topic, event))


def _sizes(add: Callable[[Observation], None], topic: str) -> None:
    for number, (size, event) in enumerate(((SIZE, Event.ACKNOWLEDGED), (SIZE + 1, Event.REFUSED))):
        add(Observation(START_US + number, "big", Role.PRODUCER, topic, event, number, bytes=size))


def _trials() -> Iterator[Trial]:
    end = START + timedelta(seconds=LENGTH_S)

    def trial(policy: str, limit: float, door: str, **changes: str) -> Trial:
        proxied = SIZES_TOPIC if policy == "max_message_size" else TOPIC
        topic = NATIVE_TOPIC if door == "native" else proxied
        return Trial(policy, "kafka", door, PHASE, topic, limit, START, end, **changes)  # type: ignore[arg-type]

    yield trial("max_publish_rate", RATE, "proxy")
    yield trial("max_publish_rate", RATE, "native", nearest="per client and broker")
    yield trial("max_producers_per_topic", 2, "proxy")
    yield trial("max_producers_per_topic", 2, "native", not_applicable="Kafka counts no producers")
    yield trial("max_message_size", SIZE, "proxy")
    yield trial("fixed_delivery_delay", 250, "proxy")


def _facts() -> RunFacts:
    return RunFacts(
        RUN,
        "name: small",
        "max_publish_rate: 50/s",
        "A small run",
        START,
        START + timedelta(seconds=LENGTH_S),
        phases=(Phase(PHASE, START, START + timedelta(seconds=LENGTH_S)),),
        arms=(
            Arm("kafka", "proxy"),
            Arm("kafka", "native"),
            Arm("danube", "interceptor", missing="no broker could be started"),
        ),
    )
