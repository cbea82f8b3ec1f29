"""Counts the observations of a run's clients, in plain Python without Spark."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from rich import box
from rich.table import Table

from sluicegate.decisions.reading import read_decisions
from sluicegate_reports.model.observations import Event, Role
from sluicegate_reports.model.results import Arm
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS

DELAYED = "delayed"
COLUMNS = {
    "attached": Event.ATTACHED,
    "turned away": Event.ATTACH_REFUSED,
    "sent": Event.SENT,
    "acknowledged": Event.ACKNOWLEDGED,
    "refused": Event.REFUSED,
    "no answer": Event.FAILED,
    "delayed": DELAYED,
    "received": Event.RECEIVED,
}
"""Heading and what is counted: clients for the first two, messages for the others."""

_Topic = tuple[str, str]
"""System and door."""


def clients_table(directory: Path, arms: Sequence[Arm], *, plain: bool) -> Table:
    """A line for each arm; for one that was not played, the reason.

    :param directory: of a small run, all of which is read.
    :param plain: ASCII only.
    :raises OSError, pyarrow.ArrowException: if a file of the run cannot be read.
    """
    counts = counted(directory)
    table = Table(
        title="What the clients saw", title_justify="left", box=box.ASCII2 if plain else box.ROUNDED
    )
    table.add_column("system and door", overflow="fold")
    for heading in COLUMNS:
        table.add_column(heading, justify="right", overflow="fold")
    for arm in arms:
        counted_here = counts.get((arm.system, arm.door))
        if counted_here is None:
            table.add_row(f"{arm.name}: {arm.missing or 'nothing was written down'}")
        else:
            table.add_row(arm.name, *(f"{counted_here[what]:,}" for what in COLUMNS.values()))
    return table


def counted(directory: Path) -> dict[_Topic, Counter[str]]:
    """Clients and messages of a run by outcome; those that a gateway held are `delayed`.

    Only acknowledgements of producers' messages count as acknowledged.

    :param directory: of a small run, all of which is read.
    :raises OSError, pyarrow.ArrowException: if a file of the run cannot be read.
    """
    counts: dict[_Topic, Counter[str]] = {}
    for topic, what, messages in (*_observed(directory), *_held(directory)):
        counts.setdefault(topic, Counter())[what] += messages
    return counts


def _observed(directory: Path) -> Iterator[tuple[_Topic, str, int]]:
    columns = ["system", "door", "role", "event", "messages"]
    for file in sorted((directory / OBSERVATIONS).glob("run=*/system=*/part-*.parquet")):
        with pq.ParquetFile(file) as parquet:
            rows = parquet.read(columns).group_by(columns[:4]).aggregate([("messages", "sum")])
        for row in rows.to_pylist():
            if row["role"] == Role.CONSUMER and row["event"] == Event.ACKNOWLEDGED:
                continue  # a consumer's acknowledgement is no answer to a producer
            yield (row["system"], row["door"]), row["event"], row["messages_sum"]


def _held(directory: Path) -> Iterator[tuple[_Topic, str, int]]:
    columns = ["system", "door", "action", "messages"]
    rows = read_decisions(directory / DECISIONS).select(columns)
    for row in rows.group_by(columns[:3]).aggregate([("messages", "sum")]).to_pylist():
        if row["action"] == "delay":
            yield (row["system"], row["door"]), DELAYED, row["messages_sum"]
