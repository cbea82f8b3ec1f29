"""Ids in place of texts: they stand for the same texts after whatever happened to the spool."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from tests.decisions.conftest import SECOND_NS, FakeGate, publish, rejection
from tests.decisions.test_files import CONSTANTS, batch_of, spool_of
from tests.waiting import until

from sluicegate.decisions import DecisionLog, interned
from sluicegate.decisions.compaction import compact
from sluicegate.decisions.files import LogFiles
from sluicegate.decisions.interned import TABLES, Interned
from sluicegate.decisions.reading import read_decisions
from sluicegate.decisions.spool import DecisionLogError, Spool, encode, partition, spools
from sluicegate.model import TopicName

OpenLog = Callable[..., DecisionLog]
FORM_1 = {
    "namespace": "n",
    "operation": "publish",
    "action": "allow",
    "factor": 1.0,
    "delay": 0,
    "messages": 1,
    "policy_version": 1,
    "decisions": 1,
    "window": 0,
}


def clients_by_size(directory: Path) -> dict[int, str]:
    table = read_decisions(directory)
    return dict(zip(table.column("bytes").to_pylist(), table.column("client").to_pylist(), strict=True))


def lines_of(directory: Path) -> list[dict[str, object]]:
    [spool] = spools(directory)
    return [orjson.loads(line) for line in spool.read_bytes().splitlines()]


def test_a_text_is_written_once_in_a_spool(tmp_path: Path, open_log: OpenLog) -> None:
    log = open_log(tmp_path, detail="full", compacting=False)
    for number in range(5_000):
        log.allowed(FakeGate(), publish(client=f"app-{number % 7}", bytes=number), number)
    log.close()

    [spool] = spools(tmp_path)
    assert [spool.read_bytes().count(f'"app-{number}"'.encode()) for number in range(7)] == [1] * 7
    assert clients_by_size(tmp_path) == {number: f"app-{number % 7}" for number in range(5_000)}


@pytest.mark.parametrize("parquet", [True, False])
def test_full_tables_begin_cleared_and_stay_bounded(
    tmp_path: Path, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch, parquet: bool
) -> None:
    monkeypatch.setattr(interned, "LIMIT", 1_500)
    log = open_log(tmp_path, detail="full", compacting=parquet, period_s=10)
    for number in range(20_000):
        topic = TopicName(f"t-{number % 3_000}", "default")
        log.allowed(FakeGate(topic), publish(client=f"app-{number}", bytes=number), number)
    assert log._files is not None
    files = log._files
    assert log.close()

    assert all(len(table) == 0 for table in files.interned._tables.values())
    assert clients_by_size(tmp_path) == {number: f"app-{number}" for number in range(20_000)}
    topics = read_decisions(tmp_path)
    assert [topics.column("topic")[row].as_py() for row in (0, 2_999, 19_999)] == ["t-0", "t-2999", "t-1999"]
    if not parquet:
        assert sum("anew" in line for line in lines_of(tmp_path)) > 5


def test_a_table_never_has_more_entries_than_its_limit_and_a_batch() -> None:
    tables = Interned()
    for start in range(0, 200_000, 1_000):
        tables.make_room()
        tables.ids("client", [f"app-{number}" for number in range(start, start + 1_000)])
        tables.written()
        assert len(tables) < interned.LIMIT + 1_000


def test_a_text_that_cannot_be_written_takes_no_other_with_it(
    tmp_path: Path, open_log: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path, detail="full", period_s=10)
    for number in range(40):
        client = "\ud800" if number == 17 else f"app-{number}"
        log.allowed(FakeGate(), publish(client=client, bytes=number), number)
    log.close()

    assert (log.stats().emitted, log.stats().dropped) == (39, 1)
    assert clients_by_size(tmp_path) == {number: f"app-{number}" for number in range(40) if number != 17}
    assert "does not fit the schema" in caplog.text


def test_what_is_no_text_is_refused_before_readers_would_stumble_over_it() -> None:
    tables = Interned()
    with pytest.raises(TypeError, match="int is not a string"):
        tables.ids("principal", ["anna", 7])
    tables.undo()

    assert tables.ids("principal", ["bert"]) == 0
    assert tables.additions() == {"new": {"principal": (0, ["bert"])}}


def test_a_line_that_was_lost_leaves_the_next_file_whole(
    tmp_path: Path, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    log = open_log(tmp_path, detail="full", monotonic=lambda: clock[0])
    write, failing = Spool.write, [False]

    def full(self: Spool, line: bytes) -> None:
        if failing[0]:
            raise OSError(28, "No space left on device")
        write(self, line)

    monkeypatch.setattr(Spool, "write", full)
    for number, fails in enumerate((False, True, True, False)):
        failing[0] = fails
        # Between the two failures no second has passed: the third is not even tried.
        log.allowed(FakeGate(), publish(client=f"app-{number // 2}", bytes=number), 0)
        until(lambda number=number: log.stats().queued == 0)  # type: ignore[misc]
        clock[0] += 2 * SECOND_NS if number == 2 else 0
    log.close()

    stats = log.stats()
    assert (stats.decided, stats.emitted, stats.dropped) == (4, 2, 2)
    assert clients_by_size(tmp_path) == {0: "app-0", 3: "app-1"}


def test_a_damaged_line_costs_rows_but_never_shows_a_wrong_text(tmp_path: Path) -> None:
    spool = Spool(partition(tmp_path, "r", "kafka"), "x", CONSTANTS)
    tables = Interned()
    lines = [encode(batch_of(2, tables, client)) for client in ("a", "b", "a", "c", "b")]
    # The line that tells of "b" is damaged in what it tells.
    lines[1] = lines[1].replace(b'"new":{"client":[1,["b"]]}', b'"new":{"client":[1,[{}]]}')
    for line in lines:
        spool.write(line)
    spool.close()

    assert read_decisions(tmp_path).column("client").to_pylist() == ["a"] * 4
    assert compact(spool.path) is not None
    assert read_decisions(tmp_path).column("client").to_pylist() == ["a"] * 4


def test_spools_of_an_earlier_release_are_read_and_compacted(tmp_path: Path) -> None:
    folder = partition(tmp_path, "r", "kafka")
    folder.mkdir(parents=True)
    lines = [
        {"version": 1, **CONSTANTS},
        {"time": [1, 2], "topic": ["t", "u"], "client": [None, "c"], "bytes": [1, 2], **FORM_1},
        {"time": [3], "topic": "t", "bytes": 3, **FORM_1, "decision_cost": [900]},
    ]
    (folder / ".part-old.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    spool_of(tmp_path, 4)

    for spool in (None, *spools(tmp_path)):
        assert spool is None or compact(spool) is not None
        old = [row for row in read_decisions(tmp_path).to_pylist() if row["namespace"] == "n"]
        assert [(row["topic"], row["client"], row["bytes"]) for row in old] == [
            ("t", None, 1),
            ("u", "c", 2),
            ("t", None, 3),
        ]
        assert [row["decision_cost"] for row in old] == [None, None, 900]
        assert [round(row["time"].timestamp() * 1e6) for row in old] == [1, 2, 3]
    assert spools(tmp_path) == []
    assert read_decisions(tmp_path).num_rows == 7


def test_a_spool_of_a_later_form_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    path = spool_of(tmp_path, 2).path
    path.write_bytes(path.read_bytes().replace(b'"form":2', b'"form":9', 1))

    with pytest.raises(DecisionLogError, match=r"x\.jsonl' has spool form 9, this release reads up to 2"):
        read_decisions(tmp_path)


def test_what_is_refused_and_what_is_allowed_is_told_apart_with_its_cost(
    tmp_path: Path, open_log: OpenLog
) -> None:
    log = open_log(tmp_path, detail="full", period_s=10)
    log._queue._note_cost(FakeGate(), 1)  # of no row: it is let go
    for number in range(6):
        if number % 3 == 1:
            log.decided(FakeGate(), publish(bytes=number), rejection(), number * 1_000)
        else:
            log.allowed(FakeGate(), publish(bytes=number), number * 1_000)
        if number in (1, 2, 5):
            log._queue._note_cost(FakeGate(), 100 + number)
    log.close()

    columns = ("bytes", "action", "decision_cost", "policy")
    rows = zip(*(read_decisions(tmp_path).column(name).to_pylist() for name in columns), strict=True)
    policy = "max_producers_per_topic"
    assert sorted(rows) == [
        (0, "allow", None, None),
        (1, "reject", 101, policy),
        (2, "allow", 102, None),
        (3, "allow", None, None),
        (4, "reject", None, policy),
        (5, "allow", 105, None),
    ]


def test_tables_hold_columns_of_the_schema_each_once() -> None:
    columns = [column for members in TABLES.values() for column in members]
    assert len(columns) == len(set(columns))
    assert set(columns) < set(read_decisions("none").schema.names)


_BUSY = """
import sys, time
from sluicegate.decisions import DecisionLog
from tests.decisions.conftest import FakeGate, publish
log = DecisionLog(sys.argv[1], "kafka", "main", "full", period_s=0.001, max_rows_queued=100_000_000)
gate, number = FakeGate(), 0
while True:
    for _ in range(500):
        log.allowed(gate, publish(client=f"app-{number // 3}", bytes=number), time.monotonic_ns())
        number += 1
    print(log.stats().emitted, flush=True)
"""


def test_after_kill_9_during_writing_every_acknowledged_row_is_there(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", _BUSY, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    with process.stdout as told:
        emitted = 0
        while emitted < 20_000:
            emitted = int(told.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        for line in told:
            if line.endswith("\n"):
                emitted = int(line)

    read = clients_by_size(tmp_path)
    assert len(read) >= emitted
    assert read == {number: f"app-{number // 3}" for number in range(len(read))}
    [spool] = spools(tmp_path)
    assert compact(spool) is not None
    assert clients_by_size(tmp_path) == read


def test_files_begin_with_empty_tables(tmp_path: Path, open_log: OpenLog) -> None:
    log = open_log(tmp_path, detail="full", compacting=False, period_s=10)
    files = log._files
    assert isinstance(files, LogFiles)
    for client in ("a", "b"):
        tables = files.interned
        assert files.write(encode(batch_of(1, tables, client)), 1, 0)
        files._end_spool()
        assert files.interned is not tables
        assert len(files.interned) == 0
    log.close()

    assert sorted(read_decisions(tmp_path).column("client").to_pylist()) == ["a", "b"]
