"""What the clients of a synthetic decision log saw: a row for each message sent, answered and received.

Each of them is 200 us from its decision, so clocks agree, nothing is lost and nothing comes twice.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness.synthetic import column
from sluicegate.decisions.spool import partition
from sluicegate_reports.model.observations import SCHEMA

_APART_US = 200
_COLUMNS = ["time", "run", "system", "door", "client", "topic", "action"]


def write_observations(decisions: Path, directory: Path, phase: str) -> int:
    """Write the observations that belong to a log of `synthetic`.

    :param decisions: the log's directory.
    :param directory: of the observations, which is made.
    :param phase: name of the phase.
    :return: rows written.
    """
    written = 0
    sent: dict[tuple[str, str, str], int] = {}
    for file in sorted(decisions.rglob("part-*.parquet")):
        table = _of_decisions(pq.ParquetFile(file).read(columns=_COLUMNS), sent, phase)
        folder = partition(directory, str(table["run"][0]), str(table["system"][0]))
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / file.name, compression="zstd", row_group_size=65_536)
        written += len(table)
    return written


def _of_decisions(log: pa.Table, sent: dict[tuple[str, str, str], int], phase: str) -> pa.Table:
    """All rows of one file of the log, in order of time."""
    client, topic = log["client"].to_pylist(), log["topic"].to_pylist()
    system = str(log["system"][0])
    numbers = np.empty(len(log), np.int64)
    for place, key in enumerate(zip(client, topic, strict=True)):
        number = sent.get((system, *key), 0)
        numbers[place] = number
        sent[(system, *key)] = number + 1
    log = log.append_column("sequence", pa.array(numbers))
    admitted = pc.equal(log["action"], "allow")
    passed, refused = log.filter(admitted), log.filter(pc.invert(admitted))
    rows = [
        _rows(log, phase, "producer", "sent", -_APART_US),
        _rows(passed, phase, "producer", "acknowledged", _APART_US),
        _rows(refused, phase, "producer", "refused", _APART_US),
        _rows(passed, phase, "consumer", "received", 2 * _APART_US),
    ]
    return pa.concat_tables(rows).sort_by("time")


def _rows(log: pa.Table, phase: str, role: str, event: str, later_us: int) -> pa.Table:
    moved = {
        name: pc.add(log["time"], pa.scalar(us, pa.duration("us")))
        for name, us in (("time", later_us), ("published", -_APART_US))
    }
    consumer, count = role == "consumer", len(log)
    values: dict[str, object] = {
        **{name: log[name] for name in ("run", "system", "door", "topic", "sequence")},
        "time": moved["time"],
        "scenario": phase,
        "client": "consumer" if consumer else log["client"],
        "role": role,
        "event": event,
        "messages": 1,
        "bytes": 1_000,
        "code": "THROTTLED" if event == "refused" else None,
        "latency_ns": None if event == "sent" else 2_000 * _APART_US,
    }
    if consumer:
        values |= {"subscription": "all", "published": moved["published"], "producer": log["client"]}
    columns = [column(values.get(each.name), each.type, count) for each in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)
