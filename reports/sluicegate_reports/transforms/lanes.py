"""Lanes: trials of rates, each with a small number that stands for system, door, topic and policy.

Everything that goes over all decisions groups and sorts by that number instead of by four texts.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sluicegate_reports.runs import Family, Trial

ALL_TOPICS = "*"
"""Topic of a limit that holds over all topics."""
SCHEMA = (
    "lane int, policy string, system string, door string, phase string, topic string, subscription string, "
    "operation string, counts string, rate double, burst double, saturated boolean, full boolean, "
    "begin_us bigint, end_us bigint, gate_begin_us bigint, gate_end_us bigint"
)

_ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}
_EPOCH = datetime.fromtimestamp(0, UTC)
_US = 1_000_000


def lanes(
    spark: SparkSession, trials: Sequence[Trial], skew_us: Mapping[tuple[str, str], float] | None = None
) -> DataFrame:
    """The trials of rates that were carried out, one row each.

    :param skew_us: how much later a gateway's clock is than the clients', by system and door.
    :return: columns of `SCHEMA`; `lane` is the trial's place in `trials`, times are us since 1970;
        `full` is false of trials that follow others on their topic, whose buckets may be spent.
    """
    rows = []
    first: dict[tuple[str, str, str], datetime] = {}
    for trial in trials:
        place = (trial.system, trial.door, trial.topic)
        first[place] = min(first.get(place, trial.start), trial.start)
    for number, trial in enumerate(trials):
        if trial.measured.family is not Family.RATE or trial.missing or trial.not_applicable:
            continue
        begin, end = microseconds(trial.start), microseconds(trial.end)
        later = round((skew_us or {}).get((trial.system, trial.door), 0))
        rows.append(
            (
                number,
                trial.policy,
                trial.system,
                trial.door,
                trial.phase,
                trial.topic or ALL_TOPICS,
                trial.subscription or None,
                trial.measured.operation,
                trial.measured.unit.partition("/")[0],
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
    return small(spark, rows, SCHEMA)


TRIES_SCHEMA = (
    "trial int, policy string, system string, door string, phase string, topic string, subscription string, "
    "limit double, begin_us bigint, end_us bigint"
)


def tries(spark: SparkSession, trials: Sequence[Trial], family: Family) -> DataFrame:
    """The trials of one family that were carried out, one row each.

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
        if trial.measured.family is family and not trial.missing and not trial.not_applicable
    ]
    return small(spark, rows, TRIES_SCHEMA)


ENDS_SCHEMA = "system string, door string, told_end_us bigint"


def ends(spark: SparkSession, read_until: Mapping[tuple[str, str], datetime]) -> DataFrame:
    """When the consumers of each arm stopped reading, where the run says it: columns of `ENDS_SCHEMA`."""
    rows = [(*arm, microseconds(moment)) for arm, moment in read_until.items()]
    return small(spark, rows, ENDS_SCHEMA)


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
