"""Observations: the one schema of what clients see, and their writer.

The decision log records what a gateway did; observations record how it reached the client, and are the only
evidence of a system's own policies. They lie beside the log, as `run=<id>/system=<s>/part-*.parquet`.
Add columns at the end and raise `VERSION`, as `sluicegate.decisions.columns` tells.
"""

import os
import secrets
import threading
from collections import deque
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate.decisions.columns import Column
from sluicegate.decisions.compaction import IN_PROGRESS_SUFFIX
from sluicegate.decisions.schema import schema_of
from sluicegate.decisions.spool import partition

VERSION = 2
"""2: consumers' `acknowledged`, `acknowledges`, and `latency_ns` of attaching and leaving, which 1 lacks."""
VERSION_KEY = b"sluicegate.observations.version"
"""Key of the version in the metadata of an Arrow or Parquet schema."""

_BATCH_ROWS = 65_536
"""Rows of one row group; fewer compress worse, more are held in memory."""
_FILE_ROWS = 1_048_576
"""Rows of one file, and what a killed runner loses at most: a Parquet file is unreadable before its end."""


class Role(StrEnum):
    """The role of a client on a topic."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


class Event(StrEnum):
    """What a client saw."""

    ATTACHED = "attached"
    ATTACH_REFUSED = "attach_refused"
    """`latency_ns` of these two is the time since it began to try."""
    DETACHED = "detached"
    """It has left; `latency_ns` is how long that took."""
    SENT = "sent"
    """A producer gave a message to its library; `time` is before the call."""
    ACKNOWLEDGED = "acknowledged"
    """The broker acknowledged a producer's message, or a consumer acknowledges one; for a consumer, `time` is
    before the call."""
    REFUSED = "refused"
    """A message was refused with a code of the protocol."""
    FAILED = "failed"
    """No answer, or one that leaves open whether the message is stored."""
    RECEIVED = "received"


class Observation(NamedTuple):
    """One row, without the columns that are constant for a writer."""

    time: int
    """us since 1970, by the client's clock."""
    client: str
    role: Role
    topic: str
    """As the broker knows it, and the decision log."""
    event: Event
    sequence: int | None = None
    """The message's number from its producer on this topic, from 0 on; the payload carries it."""
    messages: int = 1
    bytes: int = 0
    subscription: str | None = None
    code: str | None = None
    """The protocol's name of a refusal."""
    text: str | None = None
    latency_ns: int | None = None
    """From `sent`, or from beginning to attach or to leave, to this row; by a monotonic clock."""
    published: int | None = None
    """us since 1970: when the message was sent, as its payload says; of `received`."""
    producer: str | None = None
    """Which client sent it; of `received` and of a consumer's `acknowledged`."""
    delay_ms: int | None = None
    """Delay that the producer asked for."""
    acknowledges: bool | None = None
    """For a consumer's `attached`: whether it acknowledges each message and records `acknowledged`."""


_TEXT, _INT, _TIME, _FLAG = "string", "int64", "timestamp[us, tz=UTC]", "bool"
COLUMNS = (
    Column("time", _TIME, "when the client saw it, by its own clock", "UTC", False),
    Column("run", _TEXT, "the comparison run", "", False),
    Column("system", _TEXT, "kind of broker: kafka, pulsar, danube, or another", "", False),
    Column(
        "door",
        _TEXT,
        "how the client came to the broker: proxy, interceptor, client, native, direct, or another",
        "",
        False,
    ),
    Column("scenario", _TEXT, "name of the phase of the run", "", False),
    Column("client", _TEXT, "name of the client", "", False),
    Column("role", _TEXT, "producer or consumer", "", False),
    Column("topic", _TEXT, "full name of the topic, as in the decision log", "", False),
    Column("subscription", _TEXT, "subscription or consumer group; null of a producer"),
    Column(
        "event",
        _TEXT,
        "attached, attach_refused, detached, sent, acknowledged, refused, failed, received",
        "",
        False,
    ),
    Column("sequence", _INT, "the message's number from its producer on the topic, from 0 on"),
    Column("messages", _INT, "messages that the row stands for", "messages", False),
    Column("bytes", _INT, "payload, before compression", "bytes", False),
    Column("code", _TEXT, "the protocol's name of a refusal; null otherwise"),
    Column("text", _TEXT, "what the client was told with it"),
    Column(
        "latency_ns", _INT, "from sending, or beginning to attach or leave, to this; monotonic clock", "ns"
    ),
    Column("published", _TIME, "when the message was sent, as its payload says", "UTC"),
    Column("producer", _TEXT, "the client that sent the message; of consumers' rows"),
    Column("delay_ms", _INT, "delay that the producer asked for", "ms"),
    Column(
        "acknowledges",
        _FLAG,
        "of a consumer's attached: whether it acknowledges each message; null of others",
        since=2,
    ),
)
SCHEMA = schema_of(COLUMNS, VERSION_KEY, VERSION)
"""The columns as an Arrow schema, with meaning and unit in each field's metadata."""


def table_of(observations: list[Observation], run: str, system: str, door: str, scenario: str) -> pa.Table:
    """Rows as a table of the schema.

    :raises pyarrow.ArrowException: if a value does not fit its column.
    """
    constants = {"run": run, "system": system, "door": door, "scenario": scenario}
    columns = list(zip(*observations, strict=True)) or [()] * len(Observation._fields)
    values = dict(zip(Observation._fields, columns, strict=True))
    count = len(observations)
    arrays = [
        pa.repeat(pa.scalar(constants[field.name], field.type), count)
        if field.name in constants
        else pa.array(values[field.name], field.type)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


class ObservationLog:
    """Writes the observations of one arm's clients in one phase; a context manager.

    `add` may be called from any thread and does no input or output. `flush` writes full batches; a thread
    that may wait for the disk calls it about once a second. Files appear whole, by a rename.

    :param directory: the run's `observations` directory; folders are made in it.
    """

    def __init__(self, directory: Path, run: str, system: str, door: str, scenario: str) -> None:
        self._constants = (run, system, door, scenario)
        self._folder = partition(directory, run, system)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._stem = f"part-{door}-{secrets.token_hex(4)}"
        self._waiting: deque[Observation] = deque()
        self._lock = threading.Lock()
        self._writer: pq.ParquetWriter | None = None
        self._number = 0
        self._rows_in_file = 0
        self.rows = 0
        """Rows written so far."""

    def add(self, observation: Observation) -> None:
        """Queue one row."""
        self._waiting.append(observation)

    def flush(self, *, everything: bool = False) -> None:
        """Write full batches.

        :param everything: write incomplete ones too, and end the file.
        :raises OSError: if it cannot be written.
        """
        with self._lock:
            while len(self._waiting) >= _BATCH_ROWS or (everything and self._waiting):
                count = min(len(self._waiting), _BATCH_ROWS)
                rows = list(islice(iter(self._waiting.popleft, None), count))
                self._write(table_of(rows, *self._constants))
            if everything:
                self._end_file()

    def close(self) -> None:
        """Write everything and end the file.

        :raises OSError: if it cannot be written.
        """
        self.flush(everything=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _target(self) -> Path:
        return self._folder / f"{self._stem}-{self._number:05}.parquet"

    @property
    def _unfinished(self) -> Path:
        return self._folder / f".{self._target.name}{IN_PROGRESS_SUFFIX}"

    def _write(self, table: pa.Table) -> None:
        if self._writer is None:
            self._number += 1
            self._writer = pq.ParquetWriter(self._unfinished, SCHEMA, compression="zstd")
        self._writer.write_table(table)
        self.rows += len(table)
        self._rows_in_file += len(table)
        if self._rows_in_file >= _FILE_ROWS:
            self._end_file()

    def _end_file(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._writer, self._rows_in_file = None, 0
        with self._unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        self._unfinished.rename(self._target)
