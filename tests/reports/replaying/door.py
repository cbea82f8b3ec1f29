"""A minimal door in front of the real engine: what it admits and what it records."""

import heapq
import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sluicegate.model import Action, Operation, OperationKind
from sluicegate_reports.replaying.candidate import Candidate, Engine, read_candidate
from sluicegate_reports.replaying.marks import WHO, Mark
from sluicegate_reports.replaying.walk import replayed

Arrival = tuple[int, str, str, int, int]
"""Time in us, kind, client, messages, bytes."""
TOPIC = "orders"
START_US = 1_700_000_000_000_000
_MARKS = {"reject": Mark.REFUSED, "drop": Mark.DROPPED, "delay": Mark.HELD}
_SCHEMA = pa.schema(
    [
        ("names", pa.string()),
        *(
            (name, pa.int64())
            for name in ["who", "at_us", "messages", "bytes", "largest", "mark", "operations"]
        ),
    ]
)


def candidate(folder: Path, policies: str, extra: str = "") -> Candidate:
    """A file with these policies for all topics, as lines such as `max_publish_rate: 5`."""
    lines = "".join(f"    {line.strip()}\n" for line in policies.splitlines() if line.strip())
    path = folder / "candidate.yaml"
    path.write_text(
        "brokers:\n- name: main\n  system: kafka\n  bootstrap: ['127.0.0.1:9092']\n"
        f"  listen: {{port: 9192}}\n  max_hold: 1h\n{extra}policies:\n  broker:\n{lines or '    {}'}\n"
    )
    return read_candidate(path, {})


@dataclass
class Seen:
    """What became of it all."""

    passed: list[tuple[int, Arrival]] = field(default_factory=list)
    """When each passed in ns, and what it was."""
    refused: list[Arrival] = field(default_factory=list)
    delayed: list[tuple[int, Arrival]] = field(default_factory=list)
    """By how much in ns."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """The log, as rows of demand."""


class Door:
    """Each client waits with its next operation until the one before has passed."""

    def __init__(self, tried: Candidate) -> None:
        self._engine = Engine(tried.entries[0], ())
        self._held: dict[str, Operation] = {}
        self._behind: dict[str, deque[Arrival]] = {}
        self._events: list[tuple[int, int, str, Arrival]] = []
        self._number = 0
        self.seen = Seen()

    def play(self, arrivals: Sequence[Arrival]) -> Seen:
        """Let them all come, and wait until all have passed."""
        for arrival in arrivals:
            self._until(arrival[0] * 1000)
            if arrival[2] in self._held:
                self._behind.setdefault(arrival[2], deque()).append(arrival)
            else:
                self._ask(arrival, None, arrival[0] * 1000)
        self._until(1 << 62)
        return self.seen

    def _until(self, now_ns: int) -> None:
        while self._events and self._events[0][0] <= now_ns:
            at_ns, _, client, arrival = heapq.heappop(self._events)
            self._ask(arrival, self._held.pop(client), at_ns)
            behind = self._behind.get(client)
            while behind and client not in self._held:
                self._ask(behind.popleft(), None, at_ns)

    def _ask(self, arrival: Arrival, op: Operation | None, now_ns: int) -> None:
        at_us, kind, client, messages, nbytes = arrival
        first = op is None
        if op is None:
            op = Operation(OperationKind[kind.upper()], TOPIC, client, client, client, "", client)
            op.messages, op.bytes, op.largest = messages, nbytes, -(-nbytes // max(1, messages))
        decision = self._engine.gate(TOPIC, "default", client, now_ns).decide(op, now_ns)
        if decision is None:
            self.seen.passed.append((now_ns, arrival))
            if now_ns > at_us * 1000:
                self.seen.delayed.append((now_ns - at_us * 1000, arrival))
            self._write(arrival, now_ns, Mark.PLAIN)
            return
        if decision.action is Action.DELAY:
            self._number += 1
            self._held[client] = op
            heapq.heappush(self._events, (now_ns + decision.delay_ns, self._number, client, arrival))
        else:
            self.seen.refused.append(arrival)
        if first:
            self._write(arrival, now_ns, _MARKS[str(decision.action)])

    def _write(self, arrival: Arrival, now_ns: int, mark: Mark) -> None:
        _, kind, client, messages, nbytes = arrival
        self.seen.rows.append(row(now_ns // 1000, kind, client, messages, nbytes, mark))


def row(
    at_us: int,
    kind: str = "publish",
    client: str | None = "anna",
    messages: int = 1,
    nbytes: int = 100,
    mark: Mark = Mark.PLAIN,
    **changes: Any,
) -> dict[str, Any]:
    """A row of demand."""
    return {
        "system": "kafka",
        "door": "proxy",
        "gateway": "main",
        "namespace": "default",
        "topic": TOPIC,
        "principal": client,
        "client": client,
        "operation": kind,
        "subscription": None,
        "at_us": at_us,
        "messages": messages,
        "bytes": nbytes,
        "largest": -(-nbytes // max(1, messages)),
        "mark": int(mark),
        "operations": 1,
        **changes,
    }


def window(at_us: int, operations: int, messages: int, nbytes: int, kind: str = "publish") -> dict[str, Any]:
    """A row of demand for a window."""
    return row(at_us, kind, None, messages, nbytes, Mark.WINDOW, operations=operations)


def replay(tried: Candidate, rows: Sequence[Mapping[str, Any]], batch_rows: int = 7) -> list[dict[str, Any]]:
    """The walk over these rows, without Spark."""
    names = list(dict.fromkeys(tuple(each[name] for name in WHO) for each in rows))
    names_rows = [
        {**dict.fromkeys(_SCHEMA.names, 0), "who": number, "names": _names_row(who)}
        for number, who in enumerate(names)
    ]
    asked = [{**each, "who": names.index(tuple(each[name] for name in WHO)), "names": None} for each in rows]
    table = pa.Table.from_pylist([*names_rows, *asked], schema=_SCHEMA)
    batches = replayed(tried, iter(table.to_batches(max_chunksize=batch_rows)))
    return [each for batch in batches for each in batch.to_pylist()]


def _names_row(who: tuple[str | None, ...]) -> str:
    return json.dumps(dict(zip(WHO, who, strict=True)))


def total(rows: Sequence[Mapping[str, Any]], name: str) -> int:
    """A column's sum."""
    return sum(each[name] or 0 for each in rows)
