"""Compares what clients were told with what the topic holds.

A *lane* is a sequence that a broker must keep in order: one producer's records of one key. Every record's
value is `lane:number`, the numbers rising in the order of the sends, so that each can be found again.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One record as its producer knows it."""

    lane: str
    number: int

    @property
    def value(self) -> bytes:
        """The record's value."""
        return f"{self.lane}:{self.number}".encode()

    @classmethod
    def parse(cls, value: bytes) -> "Entry":
        """Read a record's value back; what comes after a blank is padding.

        :raises ValueError: if no `Entry` wrote it.
        """
        lane, colon, number = value.split(b" ", 1)[0].decode().rpartition(":")
        if not colon:
            raise ValueError(f"{value[:40]!r} is not of the form lane:number")
        return cls(lane, int(number))


@dataclass(frozen=True, slots=True)
class Stored:
    """One record as the topic holds it."""

    partition: int
    offset: int
    value: bytes
    timestamp_ms: int = 0


@dataclass(slots=True)
class ClientLog:
    """What a producer sent and what it was told. A send without an answer may be stored or not."""

    sent: list[Entry] = field(default_factory=list)
    acked: dict[Entry, tuple[int, int] | None] = field(default_factory=dict)
    """Partition and offset that were told, or None where the client does not say."""
    errored: dict[Entry, str] = field(default_factory=dict)

    def send(self, lane: str, number: int) -> Entry:
        """Note a send, before it is made."""
        entry = Entry(lane, number)
        self.sent.append(entry)
        return entry

    def ack(self, entry: Entry, partition: int | None = None, offset: int | None = None) -> None:
        """Note that the broker confirmed it."""
        self.acked[entry] = None if partition is None or offset is None else (partition, offset)

    def error(self, entry: Entry, reason: object) -> None:
        """Note that the client was told that it failed."""
        self.errored[entry] = str(reason)

    @property
    def unanswered(self) -> list[Entry]:
        """Sends that neither succeeded nor failed as far as the client knows."""
        return [entry for entry in self.sent if entry not in self.acked and entry not in self.errored]

    def merged(self, *others: "ClientLog") -> "ClientLog":
        """This log and those of other producers; their lanes must differ."""
        logs = [self, *others]
        return ClientLog(
            [entry for log in logs for entry in log.sent],
            {entry: place for log in logs for entry, place in log.acked.items()},
            {entry: reason for log in logs for entry, reason in log.errored.items()},
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong; all of them empty is a clean history."""

    lost: list[Entry]
    """Confirmed, but not in the topic."""
    duplicated: list[Entry]
    """In the topic more than once."""
    reordered: list[Entry]
    """Stored behind a later one of the same lane and partition (first copies only)."""
    errored_but_stored: list[Entry]
    """In the topic although the client was told that it failed."""
    misplaced: list[Entry]
    """Confirmed with another partition or offset than the one where it lies."""
    foreign: list[Stored]
    """In the topic, but never sent."""

    @property
    def counts(self) -> dict[str, int]:
        """How many of each kind, the kinds that are there only."""
        return {name: len(found) for name in self.__slots__ if (found := getattr(self, name))}

    def assert_clean(self) -> None:
        """Fail with examples if anything is wrong."""
        examples = {name: getattr(self, name)[:5] for name in self.counts}
        assert not examples, f"history is not clean: {self.counts}, such as {examples}"

    def assert_no_worse_than(self, direct: "Verdict") -> None:
        """Fail if any kind is more frequent than in the same run made without a gateway."""
        worse = {name: (count, direct.counts.get(name, 0)) for name, count in self.counts.items()}
        worse = {name: pair for name, pair in worse.items() if pair[0] > pair[1]}
        assert not worse, f"more than in the direct run (here, direct): {worse}"


def judge(log: ClientLog, stored: Iterable[Stored]) -> Verdict:
    """Compare a client log with all that the topic holds.

    :param stored: a read-back, in the order of offsets within each partition.
    """
    known = set(log.sent)
    copies: Counter[Entry] = Counter()
    places: dict[Entry, list[tuple[int, int]]] = {}
    order: dict[tuple[str, int], list[Entry]] = {}
    foreign = []
    for record in stored:
        try:
            entry = Entry.parse(record.value)
        except ValueError:
            entry = None
        if entry is None or entry not in known:
            foreign.append(record)
            continue
        copies[entry] += 1
        places.setdefault(entry, []).append((record.partition, record.offset))
        if copies[entry] == 1:
            order.setdefault((entry.lane, record.partition), []).append(entry)
    return Verdict(
        lost=[entry for entry in log.acked if entry not in copies],
        duplicated=[entry for entry, count in copies.items() if count > 1],
        reordered=[entry for lane in order.values() for entry in _behind_later(lane)],
        errored_but_stored=[entry for entry in log.errored if entry in copies],
        misplaced=[
            entry
            for entry, place in log.acked.items()
            if place and entry in places and place not in places[entry]
        ],
        foreign=foreign,
    )


def _behind_later(lane: Sequence[Entry]) -> list[Entry]:
    highest = -1
    behind = []
    for entry in lane:
        if entry.number < highest:
            behind.append(entry)
        highest = max(highest, entry.number)
    return behind
