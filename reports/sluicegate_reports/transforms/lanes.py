"""Lanes: the trials of rates; and the trials of other families, as small frames."""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.transforms.ahead import Ahead, ahead_at


class Lane(NamedTuple):
    """The trial of a rate."""

    number: int
    """The trial's place in the run's list."""
    policy: str
    system: str
    door: str
    topic: str | None
    """None of a limit that holds over all topics."""
    subscription: str | None
    operation: str
    counts: str
    """What the rate is of: messages, bytes or attachments."""
    rate: float
    burst: float
    saturated: bool
    full: bool
    """False of a trial that follows others on its topic, whose bucket may be spent."""
    begin_us: int
    """us since 1970, by the clients' clock."""
    end_us: int
    gate_begin_us: int
    """By the gateway's clock."""
    gate_end_us: int

    @property
    def length_us(self) -> int:
        """How long it lasted."""
        return self.end_us - self.begin_us

    @property
    def place(self) -> tuple[str, str, str | None]:
        """Whose rows it looks at, see `packed.Topic`."""
        return self.system, self.door, self.topic


_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}
_EPOCH = datetime.fromtimestamp(0, UTC)
_US = 1_000_000


def lanes(trials: Sequence[Trial], clocks: Ahead = MappingProxyType({})) -> list[Lane]:
    """The trials of rates that were carried out.

    :param clocks: by how much gateways' clocks are ahead.
    """
    first: dict[tuple[str, str, str], datetime] = {}
    for trial in trials:
        place = (trial.system, trial.door, trial.topic)
        first[place] = min(first.get(place, trial.start), trial.start)
    found = []
    for number, trial in enumerate(trials):
        if measured_as(trial).family is not Family.RATE or trial.missing or trial.not_applicable:
            continue
        begin, end = microseconds(trial.start), microseconds(trial.end)
        later = round(ahead_at(clocks, (trial.system, trial.door), begin))
        found.append(
            Lane(
                number,
                trial.policy,
                trial.system,
                trial.door,
                trial.topic or None,
                trial.subscription or None,
                measured_as(trial).operation,
                measured_as(trial).unit.partition("/")[0],
                float(trial.limit),
                float(trial.burst),
                trial.saturated,
                trial.start <= first[trial.system, trial.door, trial.topic],
                begin,
                end,
                begin + later,
                end + later,
            )
        )
    return found


TRIES_SCHEMA = (
    "trial int, policy string, system string, door string, phase string, topic string, subscription string, "
    "limit double, begin_us bigint, end_us bigint"
)


def tries(spark: SparkSession, trials: Sequence[Trial], *families: Family) -> DataFrame:
    """The trials of some families that were carried out, one row each.

    :return: columns of `TRIES_SCHEMA`; `trial` is the place in `trials`, times are us since 1970.
    """
    rows = [
        (
            number,
            trial.policy,
            trial.system,
            trial.door,
            trial.phase,
            trial.topic,
            trial.subscription or None,
            float(trial.limit),
            microseconds(trial.start),
            microseconds(trial.end),
        )
        for number, trial in enumerate(trials)
        if measured_as(trial).family in families and not trial.missing and not trial.not_applicable
    ]
    return small(spark, rows, TRIES_SCHEMA)


def small(spark: SparkSession, rows: Sequence[tuple[object, ...]], ddl: str) -> DataFrame:
    """A frame of a few rows, which are part of the plan: no job has to run to send them anywhere.

    :param ddl: names and types of the columns.
    """
    fields = [part.split() for part in ddl.split(", ")]
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, _ARROW[kind]) for column, (_, kind) in zip(columns, fields, strict=True)]
    return spark.createDataFrame(pa.table(arrays, names=[name for name, _ in fields]), ddl)


def microseconds(moment: datetime) -> int:
    """A time as us since 1970."""
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * _US + since.microseconds
