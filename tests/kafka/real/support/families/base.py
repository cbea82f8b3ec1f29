"""What a test may ask of a client family."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tests.kafka.real.support.history import ClientLog
from tests.waiting import LONG_S, until

ANSWER_S = LONG_S
Settings = Mapping[str, str | int]
"""Client settings by their names in the Java client; a family that calls one otherwise translates it."""


class Mode(Enum):
    """How a producer guards against duplicates."""

    PLAIN = "plain"
    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


@dataclass(frozen=True, slots=True)
class Received:
    """One record as a consumer got it; times in ms since 1970."""

    topic: str
    partition: int
    offset: int
    value: bytes
    timestamp_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Target:
    """Where records go, and what they all have."""

    topic: str
    lane: str
    timestamp_ms: int | None

    @property
    def key(self) -> bytes:
        """One key, so that all records of a lane go to one partition."""
        return self.lane.encode()


class Member(Protocol):
    """One consumer of a group, which runs until it is closed."""

    @property
    def errors(self) -> list[str]:
        """What the client raised or reported, as its users see it."""

    @property
    def received(self) -> list[Received]:
        """All records so far, in the order of their arrival."""

    @property
    def assigned(self) -> int:
        """Partitions that it holds; -1 as long as it has not joined."""

    def close(self) -> None:
        """Leave the group."""


class Family(Protocol):
    """One kind of stock client."""

    name: str

    def publish(
        self,
        bootstrap: str,
        topic: str,
        pads: Sequence[int],
        *,
        mode: Mode = Mode.PLAIN,
        per_transaction: int = 0,
        lane: str = "",
        timestamp_ms: int | None = None,
        settings: Settings | None = None,
    ) -> ClientLog:
        """Send one numbered record for each of `pads`, that many bytes longer; wait for all answers.

        Errors are logged as `ExceptionName: text`. Inside transactions a record counts as confirmed once
        its transaction is committed; a transaction that fails is aborted, and the next one begun.

        :param lane: of the log, and the key of all records; the family's name if empty.
        :param timestamp_ms: of all records; the client's clock if None.
        """

    def member(
        self, bootstrap: str, topics: Sequence[str], group: str, settings: Settings | None = None
    ) -> Member:
        """Begin to consume as a member of a group, from the earliest record.

        Without a group it takes partition 0 of each topic, whether others have it or not.
        """

    def commit(self, bootstrap: str, topic: str, group: str, offset: int) -> str:
        """Commit an offset of partition 0 for a group, without being its member.

        :return: the error as `ExceptionName: text`, or "" if there was none.
        """


def values_of(log: ClientLog, lane: str, pads: Sequence[int]) -> list[bytes]:
    """Note a send for each of `pads`, and make its value."""
    return [log.send(lane, number).value + b" " * pad for number, pad in enumerate(pads)]


def settled(member: Member, timeout_s: float = ANSWER_S) -> str:
    """Wait until a member has joined, or was told why not.

    :return: the first error, or "" if there was none.
    """
    until(lambda: bool(member.errors) or member.assigned >= 0, "joined or refused", timeout_s)
    return member.errors[0] if member.errors else ""


def wall_ms() -> int:
    """Wall clock in ms."""
    return time.time_ns() // 1_000_000
