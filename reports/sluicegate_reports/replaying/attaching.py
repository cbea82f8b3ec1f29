"""The rate of attachments: it applies to all topics of a broker, so each broker is replayed as a whole.

Attachments that other policies refused never reached this limit, and are skipped. One that was held is
replayed at the time when it was first held; the row of its passing is the same attachment.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate.model import ANONYMOUS, Action, Decision, Operation, OperationKind
from sluicegate.policies.connections import CONNECTION_RATE, ConnectionRate
from sluicegate_reports.replaying.candidate import Candidate, Engine, Entry
from sluicegate_reports.replaying.holding import NEVER_NS, Holding
from sluicegate_reports.replaying.tally import KEY_COLUMNS, Key, Range, Tally

_KINDS = {
    kind.name.lower(): kind
    for kind in (OperationKind.CONNECT, OperationKind.ATTACH_PRODUCER, OperationKind.ATTACH_CONSUMER)
}
_BROKER = ("system", "door", "gateway")

_Ask: TypeAlias = Callable[[Operation, int], Decision | None]


def attempts(decisions: DataFrame) -> DataFrame:
    """All attachments that a broker's limit decides, with each broker in one partition, in order of time.

    :param decisions: a decision log.
    """
    asked = F.col("operation").isin(*_KINDS) & ~F.col("action").startswith("would_")
    passed_others = (F.col("action") != "reject") | (F.col("policy") == CONNECTION_RATE)
    rows = decisions.where(asked & passed_others).select(
        *KEY_COLUMNS,
        "client",
        "action",
        F.unix_micros("time").alias("at_us"),
        "decisions",
        "window",
        F.monotonically_increasing_id().alias("order"),
    )
    return rows.repartition(*_BROKER).sortWithinPartitions("at_us", "order")


@dataclass(slots=True)
class _Attempt:
    replay: "_Replay"
    key: Key
    op: Operation
    was_held: bool
    first_ns: int

    def wake(self, now_ns: int) -> None:
        """Try again."""
        self.replay.attempt(self, now_ns)


class _Replay:
    """Replays the attachments to one broker against its limit; held ones are retried in time."""

    def __init__(self, entry: Entry, modules: tuple[str, ...], tally: Tally, *, totals: bool) -> None:
        self._engine = Engine(entry, modules)
        self._tally = tally
        self._totals = totals
        self._max_hold_ns = entry.max_hold_ns
        self._limit = ConnectionRate()
        self._ask: _Ask | None = None
        self.waiting = Holding()
        self._held: Counter[tuple[Key, str]] = Counter()

    def take(self, row: Mapping[str, Any]) -> None:
        """The next row of the log."""
        key: Key = tuple(row[name] for name in KEY_COLUMNS)
        now_ns, held = row["at_us"] * 1000, row["action"] == "delay"
        self.waiting.wake(now_ns)
        who = (key, row["client"] or "")
        if held:
            self._held[who] += 1
        elif self._held[who]:
            self._held[who] -= 1
            return
        count, window_ns = row["decisions"], row["window"] * 1_000_000
        if self._totals:
            totals = self._tally.totals_of(key)
            totals.operations += count
            totals.recorded_delayed += count if held else 0
        if window_ns:
            range_ = self._tally.ranges.setdefault((key, CONNECTION_RATE), Range())
            range_.refused_high += count
            range_.delayed_high += count
            range_.longest_delay_high_ns = self._max_hold_ns
        for nth in range(count):
            op = Operation(_KINDS[key[6]], key[4], key[5] or ANONYMOUS, row["client"] or "")
            at_ns = now_ns + (2 * nth + 1) * window_ns // (2 * count)
            attempt = _Attempt(self, key, op, held, at_ns)
            if window_ns:
                self.waiting.wait(at_ns, attempt)
            else:
                self.attempt(attempt, at_ns)

    def attempt(self, attempt: _Attempt, now_ns: int) -> None:
        """Ask the limit; an attachment that it delays waits, for `max_hold` at most."""
        decision = self._asked(attempt, now_ns)
        if decision is None:
            self._passed(attempt, now_ns)
        elif decision.action is Action.DELAY:
            outcome = self._tally.outcome(attempt.key, CONNECTION_RATE)
            outcome.worst(decision)
            if now_ns + decision.delay_ns > attempt.first_ns + self._max_hold_ns:
                outcome.refused += 1
                outcome.newly_refused += 1
                return
            self.waiting.wait(now_ns + max(1, decision.delay_ns), attempt)

    def _asked(self, attempt: _Attempt, now_ns: int) -> Decision | None:
        if self._ask is None:
            gate = self._engine.gate(attempt.op.topic, attempt.key[3], attempt.op.principal, now_ns)
            checks = self._limit.sluicegate_policy_checks(gate.state.topic, gate.policies, gate.state)
            self._ask = checks[0].call if checks else lambda _op, _now_ns: None
        return self._ask(attempt.op, now_ns)

    def _passed(self, attempt: _Attempt, now_ns: int) -> None:
        late_ns = now_ns - attempt.first_ns
        if late_ns:
            outcome = self._tally.outcome(attempt.key, CONNECTION_RATE)
            outcome.delayed += 1
            outcome.newly_delayed += not attempt.was_held
            outcome.delay_ns += late_ns
            outcome.longest_delay_ns = max(outcome.longest_delay_ns, late_ns)
        elif attempt.was_held and self._totals:
            self._tally.totals_of(attempt.key).no_longer_delayed += 1


def attached(candidate: Candidate, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Walk through the rows of one partition of `attempts`; rows of `replaying.tally.SCHEMA`."""
    tally = Tally()
    replays: dict[tuple[str, ...], _Replay | None] = {}
    for batch in batches:
        for row in batch.to_pylist():
            broker = tuple(row[name] for name in _BROKER)
            if broker not in replays:
                entry = candidate.entry_of_attachments(row["system"], row["gateway"])
                totals = not candidate.counts
                replays[broker] = _Replay(entry, candidate.modules, tally, totals=totals) if entry else None
            replay = replays[broker]
            if replay is not None:
                replay.take(row)
    for replay in replays.values():
        if replay is not None:
            replay.waiting.wake(NEVER_NS)
    yield tally.batch()
