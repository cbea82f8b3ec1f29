"""Replays a log in order of time: the candidate's gates decide each operation."""

import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.model import ANONYMOUS, Action, Operation, OperationKind
from sluicegate_reports.replaying.candidate import Candidate, Engine
from sluicegate_reports.replaying.holding import NEVER_NS, Holding
from sluicegate_reports.replaying.marks import WHO, Mark
from sluicegate_reports.replaying.source import Source
from sluicegate_reports.replaying.tally import Key, Range, Tally
from sluicegate_reports.replaying.windows import WindowBounds, limit_name

_SIZE = "max_message_size"
_WINDOW_NS = 100_000_000
_WAS = {Mark.HELD: Action.DELAY, Mark.REFUSED: Action.REJECT, Mark.DROPPED: Action.DROP}
_KINDS = {kind.name.lower(): kind for kind in OperationKind}
_ATTACHING = frozenset(
    {OperationKind.ATTACH_PRODUCER, OperationKind.CREATE_SUBSCRIPTION, OperationKind.ATTACH_CONSUMER}
)

_CONSUMING = frozenset({OperationKind.ATTACH_CONSUMER, OperationKind.DISPATCH, OperationKind.ACKNOWLEDGE})
_NUMBERS = ("at_us", "messages", "bytes", "largest", "mark", "operations")

Who: TypeAlias = tuple[str | None, ...]
Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


class _Spread:
    """The operations of a window, evenly over its time."""

    __slots__ = ("_asked", "_bytes", "_holding", "_messages", "_operations", "_source", "_start_ns")

    def __init__(self, source: Source, holding: Holding, start_ns: int, sums: tuple[int, int, int]) -> None:
        self._source = source
        self._holding = holding
        self._start_ns = start_ns
        self._operations, self._messages, self._bytes = sums
        self._asked = 0
        holding.wait(self._time(0), self)

    def _time(self, index: int) -> int:
        return self._start_ns + (2 * index + 1) * _WINDOW_NS // (2 * self._operations)

    def _part(self, whole: int, index: int) -> int:
        return whole * (index + 1) // self._operations - whole * index // self._operations

    def wake(self, now_ns: int) -> None:
        """Ask the next one."""
        messages, nbytes = self._part(self._messages, self._asked), self._part(self._bytes, self._asked)
        self._source.offer(now_ns, messages, nbytes, -(-nbytes // max(1, messages)))
        self._asked += 1
        if self._asked < self._operations:
            self._holding.wait(self._time(self._asked), self)


class Walker:
    """Walks through rows of `demand` in order of time.

    :param candidate: the policies to try.
    """

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._engines: dict[tuple[str, str, str], tuple[Engine, Engine] | None] = {}
        self._who: dict[int, Who] = {}
        self._sources: dict[int, Source | None] = {}
        self._bounds: dict[Key, WindowBounds | None] = {}
        self._holding = Holding()
        self.tally = Tally()

    def take(self, batch: pa.RecordBatch) -> None:
        """Replay a batch, whose rows follow those of the previous one."""
        batch = self._without_names(batch)
        if not batch.num_rows:
            return
        rows = {name: _numbers(batch, name) for name in _NUMBERS}
        rows["at_ns"] = rows.pop("at_us") * 1000
        numbers, codes = np.unique(_numbers(batch, "who"), return_inverse=True)
        known_sources = [self._source(number, int(rows["at_ns"][0])) for number in numbers.tolist()]
        sources = [source for source in known_sources if source is not None]
        if len(sources) < len(known_sources):
            known = np.array([source is not None for source in known_sources])
            kept = known[codes]
            codes = (np.cumsum(known) - 1)[codes[kept]]
            rows = {name: column[kept] for name, column in rows.items()}
        if not sources:
            return
        self._count(sources, codes, rows)
        self._walk(sources, codes.tolist(), rows)

    def finish(self) -> pa.RecordBatch:
        """Let held operations proceed as they would, and return all counts."""
        self._holding.wake(NEVER_NS)
        for bounds in self._bounds.values():
            if bounds is not None:
                bounds.close()
        return self.tally.batch()

    def _walk(self, sources: Sequence[Source], codes: list[int], rows: dict[str, Array]) -> None:
        holding, due = self._holding, self._holding.due_ns
        names = ("at_ns", "messages", "bytes", "largest", "mark", "operations")
        refused = int(Mark.REFUSED)
        # <hot> Once for every row: most are plain, so the operation of a source is reused, and its gate is
        # called directly.
        for source, now_ns, messages, nbytes, largest, mark, operations in zip(
            map(sources.__getitem__, codes), *(rows[name].tolist() for name in names), strict=True
        ):
            if now_ns >= due:
                due = holding.wake(now_ns)
            op = source.op
            op.messages = messages
            op.bytes = nbytes
            op.largest = largest
            if mark:
                if not (mark == refused and source.streams and not self._bounds and source.again(op, now_ns)):
                    self._special(source, Mark(mark), now_ns, (operations, messages, nbytes), largest)
                due = holding.due_ns
                continue
            decision = source.ask(op, now_ns)
            if decision is not None:
                due = source.follow(decision, now_ns)

    def _special(
        self, source: Source, mark: Mark, now_ns: int, sums: tuple[int, int, int], largest: int
    ) -> None:
        if mark is Mark.LEFT:
            source.gate.detach(source.op)
        elif mark is Mark.WINDOW:
            self._window(source, now_ns, sums)
        elif source.op.kind in _ATTACHING:
            self._attach(source, now_ns, _WAS.get(mark, Action.ALLOW))
        elif mark is Mark.HELD and _everyone(source.key) in self._bounds:
            # Its passing is part of a window, and is replayed there.
            source.totals.operations -= 1
            source.totals.messages -= sums[1]
        else:
            _, messages, nbytes = sums
            source.offer(now_ns, messages, nbytes, largest, _WAS.get(mark, Action.ALLOW))
            bounds = self._bounds.get(_everyone(source.key))
            if bounds is not None:
                bounds.add(now_ns, 0, 1, messages, nbytes)

    def _attach(self, source: Source, now_ns: int, was: Action) -> None:
        """Replay twice: once with clients leaving after their last operation, once with none leaving."""
        before = source.refused
        source.offer(now_ns, 0, 0, 0, was)
        engines = self._engines[source.key[:3]]
        if engines is None:
            return
        op, refused = source.op, source.refused
        decision = engines[1].gate(op.topic, source.key[3], op.principal, now_ns).decide(op, now_ns)
        if decision is not None and decision.reasons and refused == before:
            self.tally.outcome(source.key, decision.reasons[0].policy).maybe_refused += 1

    def _window(self, source: Source, start_ns: int, sums: tuple[int, int, int]) -> None:
        if not source.streams:
            return
        _Spread(source, self._holding, start_ns, sums)
        key = _everyone(source.key)
        if key not in self._bounds:
            self._bounds[key] = self._bounds_of(source, key)
        bounds = self._bounds[key]
        if bounds is not None:
            bounds.add(start_ns, _WINDOW_NS, *sums)

    def _bounds_of(self, source: Source, key: Key) -> WindowBounds | None:
        policies, operation = source.gate.policies, key[6]
        name = limit_name(policies, operation)
        if name is None:
            return None
        range_ = self.tally.ranges.setdefault((key, name), Range())
        return WindowBounds(policies, operation, range_)

    def _count(self, sources: Sequence[Source], codes: Array, rows: dict[str, Array]) -> None:
        """Sum the demand, and count batches that may be refused because of one too large message."""
        operations = np.bincount(codes, rows["operations"], len(sources))
        messages = np.bincount(codes, rows["messages"], len(sources))
        limits = np.array([source.gate.policies.number(_SIZE) or np.inf for source in sources])[codes]
        published = np.array([source.op.kind == OperationKind.PUBLISH for source in sources])[codes]
        doubtful = published & (rows["largest"] <= limits) & (rows["bytes"] > limits)
        most = np.minimum(rows["operations"], rows["bytes"] // (np.minimum(limits, 1 << 62) + 1))
        may = np.bincount(codes, doubtful * most, len(sources))
        marks = rows["mark"]
        refused = np.bincount(codes, (marks == Mark.REFUSED) | (marks == Mark.DROPPED), len(sources))
        held = np.bincount(codes, marks == Mark.HELD, len(sources))
        sums = zip(sources, operations, messages, refused, held, may, strict=True)
        for source, asked, sent, rejected, delayed, doubts in sums:
            source.totals.operations += int(asked)
            source.totals.messages += int(sent)
            source.totals.recorded_refused += int(rejected)
            source.totals.recorded_delayed += int(delayed)
            if doubts:
                self.tally.outcome(source.key, _SIZE).maybe_refused += int(doubts)

    def _without_names(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Read the rows that map numbers to clients; the remaining rows are operations."""
        names = batch.column("names")
        if names.null_count == len(names):
            return batch
        named = names.is_valid()
        for row in batch.filter(named).select(["who", "names"]).to_pylist():
            names = json.loads(row["names"])
            self._who[row["who"]] = tuple(names.get(name) for name in WHO)
        return batch.filter(pc.invert(named))

    def _source(self, number: int, now_ns: int) -> Source | None:
        """The source of a number; None if the candidate has no broker of its system."""
        if number not in self._sources:
            self._sources[number] = self._new_source(self._who[number], now_ns)
        return self._sources[number]

    def _new_source(self, who: Who, now_ns: int) -> Source | None:
        system, door, gateway, namespace, topic, principal, client, operation, subscription = (
            value or "" for value in who
        )
        engines = self._engines_of(system, door, gateway)
        if engines is None:
            return None
        principal = principal or ANONYMOUS
        kind, key = _KINDS[operation], client or "?"
        consumes = bool(subscription) or kind in _CONSUMING
        producer, consumer = ("", key) if consumes else (key, "")
        op = Operation(kind, topic, principal, client, producer, subscription, consumer)
        gate = engines[0].gate(topic, namespace, principal, now_ns)
        source_key: Key = (system, door, gateway, namespace, topic, who[5], operation)
        return Source(source_key, op, gate, engines[0].entry.max_hold_ns, self._holding, self.tally)

    def _engines_of(self, system: str, door: str, gateway: str) -> tuple[Engine, Engine] | None:
        key = (system, door, gateway)
        if key not in self._engines:
            entry = self._candidate.entry(system, gateway)
            modules = self._candidate.modules
            self._engines[key] = (Engine(entry, modules), Engine(entry, modules)) if entry else None
        return self._engines[key]


def replayed(candidate: Candidate, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Walk through the rows of one partition: all of its topics' rows, in order of time."""
    walker = Walker(candidate)
    for batch in batches:
        if batch.num_rows:
            walker.take(batch)
    yield walker.finish()


def _everyone(key: Key) -> Key:
    return (*key[:5], None, key[6])


def _numbers(batch: pa.RecordBatch, name: str) -> Array:
    numbers: Array = batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers
