"""Runs as docs/run-directory.md describes them, written with nothing of the product but its schemas.

A `Book` holds one run: many topics, each of which is a trial of its own with its own fault or none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate.decisions.schema import SCHEMA as DECISIONS
from sluicegate_reports.model.observations import SCHEMA as OBSERVATIONS
from sluicegate_reports.model.results import Arm, RunFacts
from sluicegate_reports.model.runs import Run, Trial, write_run

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
LENGTH_S, RATE, SIZE = 24, 20, 100
SECOND = 1_000_000
PHASE = "steady"
Row = dict[str, Any]
SeenUs = Callable[[int], int]
"""When clients see what there is to see at some time; both in us from START."""


@dataclass(frozen=True, slots=True)
class Message:
    """What became of one message; times in us from START."""

    number: int
    at_us: int
    """When its producer sent it."""
    passed: bool = True
    """Whether the gate let it pass."""
    decided_us: int | None = None
    """When the gate did, 1 ms after it was sent if it is not told."""
    ended: str = ""
    """`acknowledged`, `refused`, `failed`, `nothing`; by default what the gate decided."""
    logged: bool = True
    arrivals: tuple[int, ...] | None = None
    """When it was received; 5 ms after the decision if it passed and nothing else is told."""
    size: int = SIZE
    lacks: bool = False
    """Whether its consumer gets a byte too few."""
    asked_ms: int | None = None
    policy: str = ""
    """In whose name it was refused, if not the trial's."""
    held: bool = False
    code: str = "PolicyViolationError"

    @property
    def gate_us(self) -> int:
        return self.at_us + 1_000 if self.decided_us is None else self.decided_us

    @property
    def answer(self) -> str:
        return self.ended or ("acknowledged" if self.passed else "refused")

    @property
    def came(self) -> tuple[int, ...]:
        if self.arrivals is not None:
            return self.arrivals
        return (self.gate_us + 5_000,) if self.passed else ()


@dataclass(slots=True)
class Book:
    """One run that grows trial by trial."""

    trials: list[Trial] = field(default_factory=list)
    decisions: dict[str, list[Row]] = field(default_factory=dict)
    observations: dict[str, list[Row]] = field(default_factory=dict)

    def tries(self, policy: str, limit: float, topic: str, **changes: Any) -> None:
        """A trial of the whole length."""
        end = START + timedelta(seconds=LENGTH_S)
        values: Row = {"system": "kafka", "door": "proxy", "phase": PHASE, "start": START, "end": end}
        self.trials.append(Trial(policy, topic=topic, limit=limit, **{**values, **changes}))

    def saw(self, at_us: float, topic: str, **columns: Any) -> None:
        """A row of the observations."""
        row: Row = {"run": "r1", "door": "proxy", "system": "kafka", "scenario": PHASE, "topic": topic}
        row |= {"time": START_US + int(at_us), "messages": 1, "bytes": SIZE, **columns}
        self.observations.setdefault(row["system"], []).append(row)

    def decided(self, at_us: float, topic: str, **columns: Any) -> None:
        """A row of the decision log."""
        row: Row = {"run": "r1", "system": "kafka", "door": "proxy", "gateway": "main", "principal": "User:a"}
        row |= {"namespace": "default", "operation": "publish", "factor": 1.0, "delay": 0, "bytes": SIZE}
        row |= {"messages": 1, "policy_version": 1, "decisions": 1, "window": 0, "topic": topic}
        row |= {"time": START_US + int(at_us), "action": "allow", "client": f"p-{topic}@h:1", **columns}
        self.decisions.setdefault(row["system"], []).append(row)

    def publishes(self, topic: str, policy: str, messages: list[Message], **arm: Any) -> None:
        """Messages of one producer, read by one consumer.

        :param arm: `system`, `door`; functions of the true time: `gate_us` is the gate's clock, `seen_us`
            when clients see what there is to see then.
        """
        clock = arm.pop("gate_us", lambda us: us)
        seen = arm.pop("seen_us", lambda us: us)
        self.saw(0, topic, client=f"c-{topic}", role="consumer", event="attached", subscription="s", **arm)
        for each in messages:
            producer = {"client": f"p-{topic}", "role": "producer", "sequence": each.number, **arm}
            producer |= {"bytes": each.size, "delay_ms": each.asked_ms}
            self.saw(each.at_us, topic, event="sent", **producer)
            told_us = seen(each.gate_us + 2_000)
            if each.answer != "nothing":
                code = None if each.answer == "acknowledged" else each.code
                lasted = (told_us - each.at_us) * 1_000
                self.saw(told_us, topic, event=each.answer, code=code, latency_ns=lasted, **producer)
            for came_us in each.came:
                self._received(seen(came_us), topic, each, **arm)
            if each.logged:
                self._logged(topic, policy, each, clock, arm)

    def dispatches(
        self, topic: str, policy: str, messages: list[Message], seen_us: SeenUs | None = None, **arm: Any
    ) -> None:
        """Messages of one producer whose dispatch a rate held until `gate_us`, and one consumer.

        :param seen_us: see `publishes`.
        """
        unheld = [replace(m, decided_us=None, held=False, arrivals=()) for m in messages]
        self.publishes(topic, "", unheld, **arm)
        dispatch = {"operation": "dispatch", "subscription": "s", **arm}
        for m in (m for m in messages if m.gate_us < LENGTH_S * SECOND or m.held):
            if m.held and m.logged:
                held = {"policy": policy, "action": "delay", "delay": (m.gate_us - m.at_us) * 1_000}
                self.decided(m.at_us + 500, topic, **held, **dispatch)
            if m.gate_us < LENGTH_S * SECOND:
                if m.logged:
                    self.decided(m.gate_us, topic, **dispatch)
                came_us = m.gate_us + 3_000
                self._received(seen_us(came_us) if seen_us else came_us, topic, m, **arm)

    def _logged(self, topic: str, policy: str, each: Message, clock: Any, arm: Row) -> None:
        if each.held:
            waits_ns = (each.gate_us - each.at_us) * 1_000
            held = {"policy": policy, "action": "delay", "delay": waits_ns, "bytes": each.size, **arm}
            self.decided(clock(each.at_us + 500), topic, **held)
        refused = {} if each.passed else {"policy": each.policy or policy, "action": "reject"}
        self.decided(clock(each.gate_us), topic, bytes=each.size, **refused, **arm)

    def _received(self, at_us: int, topic: str, each: Message, **columns: Any) -> None:
        row: Row = {"client": f"c-{topic}", "role": "consumer", "event": "received", "subscription": "s"}
        row |= {"sequence": each.number, "published": START_US + each.at_us, "producer": f"p-{topic}"}
        self.saw(at_us, topic, **{**row, "bytes": each.size - each.lacks, **columns})

    def attaches(self, topic: str, events: list[Row], role: str = "producer", **columns: Any) -> None:
        """Clients that come one after the other, a second apart, and are let in or not."""
        for number, event in enumerate(events):
            place = {"role": role, "client": f"{topic}-{number}", "latency_ns": 1_000_000}
            self.saw((number + 1) * SECOND, topic, **{**place, "event": "attached", **columns, **event})

    def write(self, directory: Path) -> Run:
        """The whole run; its consumers read on for three seconds."""
        for name, schema, by_system in (
            ("decisions", DECISIONS, self.decisions),
            ("observations", OBSERVATIONS, self.observations),
        ):
            for system, rows in by_system.items():
                folder = directory / name / "run=r1" / f"system={system}"
                folder.mkdir(parents=True)
                arrays = [pa.array([row.get(column.name) for row in rows], column.type) for column in schema]
                pq.write_table(pa.Table.from_arrays(arrays, schema=schema), folder / "part-main-1.parquet")
        arms = dict.fromkeys((each.system, each.door) for each in self.trials)
        read_until = START + timedelta(seconds=LENGTH_S + 3)
        facts = RunFacts("r1", "", "", arms=tuple(Arm(*arm, read_until=read_until) for arm in arms))
        run = Run(facts, tuple(self.trials))
        write_run(directory, run)
        return run


def resumed(stalls: Sequence[tuple[float, float]]) -> SeenUs:
    """When somebody sees and does what is due at some time, who stands still from one second to another."""

    def after(us: int) -> int:
        for start_s, end_s in stalls:
            start_us, end_us = int(start_s * SECOND), int(end_s * SECOND)
            if start_us <= us < end_us:
                # In a few ms, in the same order.
                return end_us + (us - start_us) // 1_000
        return us

    return after


def asked(rate: float = 1.5 * RATE, length_s: float = LENGTH_S, jitter_us: int = 9_000) -> list[Message]:
    """Messages in even steps, each up to `jitter_us` later, the same in every run."""
    steps = range(int(rate * length_s))
    return [Message(n, int(n * SECOND / rate) + n * 7_919 % jitter_us) for n in steps]


def bucket(messages: list[Message], rate: float = RATE, burst: float = RATE) -> list[Message]:
    """What a token bucket, full at the first, lets pass of single messages."""
    level, last_us, decided = burst, messages[0].gate_us, []
    for each in messages:
        level = min(burst, level + (each.gate_us - last_us) * rate / SECOND)
        last_us, passes = each.gate_us, level >= 1
        level -= passes
        decided.append(replace(each, passed=passes))
    return decided


def holding(messages: list[Message], rate: float = RATE, burst: float = RATE) -> list[Message]:
    """Likewise of a gate that holds what it does not let pass at once."""
    free_us, decided = -burst * SECOND / rate, []
    for each in messages:
        free_us = max(free_us, each.gate_us - burst * SECOND / rate) + SECOND / rate
        passes_us = max(each.gate_us, int(free_us) + 1)
        decided.append(replace(each, decided_us=passes_us, held=passes_us > each.gate_us))
    return decided
