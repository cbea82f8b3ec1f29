"""A decision log of any length that looks like a gate's: for benchmarks and tests of the reports.

Three systems with eight topics each; on each topic four clients ask, together, for half as much again as the
limit. Times are random, and a token bucket of its own for each topic admits or refuses: so the rate is kept
to the message, no window overshoots, and the first refusal comes when burst / (offered - rate) is over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicegate.decisions.schema import SCHEMA
from sluicegate.decisions.spool import partition

RUN = "synthetic"
ARMS = (("kafka", "proxy"), ("pulsar", "proxy"), ("danube", "interceptor"))
TOPICS = 8
CLIENTS = 4
RATE = 1_000
"""Messages a second that a topic's limit admits; a full bucket holds a second's worth."""
OFFERED = 1.5
"""What clients ask for, in limits."""
START = datetime(2026, 11, 21, 12, tzinfo=UTC)

_FILE_ROWS = 1_000_000
_ROW_GROUP_ROWS = 65_536
_MESSAGE_BYTES = 1_000
_COST_MEDIAN_NS = 900
_COST_SIGMA = 0.4
"""Of a log-normal distribution: a tail as the cost of decisions has."""

_Array = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Written:
    """What was written."""

    rows: int
    start: datetime
    end: datetime
    topics: tuple[tuple[str, str, str], ...]
    """System, door and topic."""


def topic_name(system: str, number: int) -> str:
    """A topic's full name, as the system writes it."""
    return {"kafka": "load.t{}", "pulsar": "persistent://public/load/t{}", "danube": "/load/t{}"}[
        system
    ].format(number)


def write_decisions(directory: Path, rows: int, seed: int = 1, *, one_topic: bool = False) -> Written:
    """Write a log of about so many decisions, `detail: full`, in files of up to a million rows.

    :param directory: of the log; `run=synthetic/system=...` is made in it.
    :param one_topic: whether all are of one topic of Kafka.
    :return: what is in it; the rows are as many as asked for, but for rounding to whole topics.
    """
    arms, count = (ARMS[:1], 1) if one_topic else (ARMS, TOPICS)
    per_arm = rows // len(arms)
    written = 0
    for arm, (system, door) in enumerate(arms):
        folder = partition(directory, RUN, system)
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng([seed, arm])
        for number, table in enumerate(_tables(system, door, per_arm, count, rng)):
            target = folder / f"part-{door}-{number:05}.parquet"
            pq.write_table(table, target, compression="zstd", row_group_size=_ROW_GROUP_ROWS)
            written += len(table)
    seconds = per_arm / (count * RATE * OFFERED)
    topics = tuple((s, d, topic_name(s, number)) for s, d in arms for number in range(count))
    return Written(written, START, START + timedelta(seconds=seconds), topics)


def write_comparison(directory: Path, rows: int, *, observed: bool = False, one_topic: bool = False) -> None:
    """Write a comparison run of about so many decisions, one trial for each topic.

    :param directory: of the run, which is made.
    :param observed: whether clients saw it: 2.7 rows for each decision.
    :param one_topic: see `write_decisions`.
    """
    from benchmarks.harness.observed import write_observations
    from sluicegate_reports.model.results import Arm, RunFacts
    from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS, Run, Trial, write_run

    written = write_decisions(directory / DECISIONS, rows, one_topic=one_topic)
    if observed:
        write_observations(directory / DECISIONS, directory / OBSERVATIONS, "load")
    trials = tuple(
        Trial("max_publish_rate", system, door, "load", topic, RATE, written.start, written.end)
        for system, door, topic in written.topics
    )
    arms = tuple(Arm(*arm) for arm in dict.fromkeys((trial.system, trial.door) for trial in trials))
    write_run(directory, Run(RunFacts(RUN, "", "", arms=arms), trials))


def _tables(
    system: str, door: str, rows: int, count_of_topics: int, rng: np.random.Generator
) -> Iterator[pa.Table]:
    """The log in order of time, cut into files."""
    start_us = int(START.timestamp() * 1e6)
    per_s = count_of_topics * RATE * OFFERED
    done = 0
    buckets = _Buckets()
    while done < rows:
        count = min(_FILE_ROWS, rows - done)
        begin, end = (int(position / per_s * 1e6) for position in (done, done + count))
        times = np.sort(rng.integers(begin, max(end, begin + 1), count))
        topics = rng.integers(0, count_of_topics, count)
        yield _table(system, door, start_us, times, topics, rng, buckets)
        done += count


def _table(
    system: str,
    door: str,
    start_us: int,
    times: _Array,
    topics: _Array,
    rng: np.random.Generator,
    buckets: "_Buckets",
) -> pa.Table:
    count = len(times)
    admitted = buckets.admit(times, topics)
    refused_rows = pa.array(~admitted)
    names = [topic_name(system, number) for number in range(TOPICS)]
    clients = [f"client-{number}@10.0.0.{number}:5000{number}" for number in range(CLIENTS)]
    costs = rng.lognormal(np.log(_COST_MEDIAN_NS), _COST_SIGMA, count).astype(np.int64)
    ids = pc.binary_join_element_wise("k3x9qa", pa.array(times).cast(pa.string()), "-")

    def where_refused(value: object, kind: pa.DataType) -> pa.Array:
        scalar = pa.scalar(value, kind)
        return pc.if_else(refused_rows, scalar, pa.scalar(None, kind))

    values: dict[str, object] = {
        "time": pa.array(times + start_us).cast(pa.timestamp("us", tz="UTC")),
        "run": RUN,
        "system": system,
        "door": door,
        "gateway": "main",
        "principal": _picked(np.zeros(count, np.int64), ["User:load"]),
        "client": _picked(rng.integers(0, CLIENTS, count), clients),
        "namespace": "load",
        "topic": _picked(topics, names),
        "operation": "publish",
        "policy": where_refused("max_publish_rate", pa.string()),
        "level": where_refused("topic", pa.string()),
        "action": _picked(admitted.astype(np.int64), ["reject", "allow"]),
        "reason": where_refused("limit_reached", pa.string()),
        "current": where_refused(float(RATE + 1), pa.float64()),
        "limit": where_refused(float(RATE), pa.float64()),
        "factor": 1.0,
        "delay": 0,
        "bytes": _MESSAGE_BYTES,
        "messages": 1,
        "decision_cost": pa.array(costs),
        "policy_version": 1,
        "decision_id": pc.if_else(refused_rows, ids, pa.scalar(None, pa.string())),
        "decisions": 1,
        "window": 0,
    }
    return pa.Table.from_arrays([column(values.get(f.name), f.type, count) for f in SCHEMA], schema=SCHEMA)


class _Buckets:
    """One token bucket for each topic, full at time 0."""

    def __init__(self) -> None:
        self._tokens = [float(RATE)] * TOPICS
        self._refilled = [0] * TOPICS

    def admit(self, times: _Array, topics: _Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each of the requests, in order of time, is admitted."""
        tokens, refilled, per_us = self._tokens, self._refilled, RATE / 1e6
        admitted = bytearray(len(times))
        for place, (time_us, topic) in enumerate(zip(times.tolist(), topics.tolist(), strict=True)):
            have = min(tokens[topic] + (time_us - refilled[topic]) * per_us, RATE)
            refilled[topic] = time_us
            if have >= 1:
                admitted[place] = True
                have -= 1
            tokens[topic] = have
        return np.frombuffer(admitted, np.bool_)


def _picked(index: _Array, words: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), pa.array(words)).cast(pa.string())


def column(value: object, kind: pa.DataType, count: int) -> pa.Array:
    """A column of a table: the array, or the same value in each row."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value.cast(kind)
    return pa.repeat(pa.scalar(value, kind), count)
