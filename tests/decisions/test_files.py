"""Files: full disks, kills, rotation, compaction, retention."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.decisions.conftest import SECOND_NS, FakeGate, publish, rejection
from tests.waiting import LONG_S, until

from sluicegate.decisions import DecisionLog, Retention, compaction
from sluicegate.decisions.columns import COLUMNS, VERSION
from sluicegate.decisions.compaction import compact, prune, tidy
from sluicegate.decisions.interned import Interned
from sluicegate.decisions.reading import read_decisions
from sluicegate.decisions.rows import Batch, of_rows
from sluicegate.decisions.schema import SCHEMA, VERSION_KEY, version_of
from sluicegate.decisions.spool import (
    DecisionLogError,
    Spool,
    encode,
    ended,
    parquet_files,
    partition,
    spools,
)
from sluicegate.model import OperationKind

OpenLog = Callable[..., DecisionLog]


CONSTANTS = {"run": "r", "system": "kafka", "door": "proxy", "gateway": "main"}


def batch_of(count: int, interned: Interned, client: str = "c") -> Batch:
    rows = [(n, FakeGate(), OperationKind.PUBLISH, "p", client, "", 1, n, None) for n in range(count)]
    batch = of_rows(rows, 0, {}, interned)
    interned.written()
    return batch


def spool_of(directory: Path, *counts: int, name: str = "x", close: bool = True) -> Spool:
    spool = Spool(partition(directory, "r", "kafka"), name, CONSTANTS)
    interned = Interned()
    for count in counts:
        spool.write(encode(batch_of(count, interned)))
    if close:
        spool.close()
    return spool


def test_files_are_parquet_in_partitions_and_nothing_else_is_left(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog
) -> None:
    log = open_log(tmp_path, run="r1")
    log.decided(gate, publish(), rejection(), 0)
    log.close()

    [path] = [found for found in tmp_path.rglob("*") if found.is_file()]
    assert path.parent == tmp_path / "run=r1" / "system=kafka"
    assert path.name.startswith("part-main-")
    file = pq.ParquetFile(path)
    assert version_of(file.schema_arrow) == VERSION
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert SCHEMA.field("delay").metadata[b"unit"] == b"ns"


def test_a_row_takes_few_bytes_on_disk(tmp_path: Path, open_log: OpenLog) -> None:
    log = open_log(tmp_path, detail="full", max_rows_queued=100_000)
    gates = [FakeGate() for _ in range(10)]
    for number in range(50_000):
        op = publish(client=f"app-{number % 40}@10.0.0.7:5000", bytes=1_000 + number * 7919 % 500)
        log.allowed(gates[number % 10], op, number * 40_000 + number * 7919 % 9_973)
    log.close()

    assert sum(file.stat().st_size for file in parquet_files(tmp_path)) / 50_000 <= 12


_WRITER = """
import sys, time
from sluicegate.decisions import DecisionLog
from tests.decisions.conftest import FakeGate, publish, rejection
log = DecisionLog(sys.argv[1], "kafka", "main", period_s=0.02)
for number in range(100):
    log.decided(FakeGate(), publish(bytes=number), rejection(), time.monotonic_ns())
while log.stats().emitted < 100:
    time.sleep(0.01)
print("flushed", flush=True)
time.sleep(600)
"""


def test_after_kill_9_all_flushed_rows_are_readable_and_the_next_start_compacts_them(
    tmp_path: Path, open_log: OpenLog
) -> None:
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "flushed\n"
        while_alive = spools(tmp_path)
        assert compact(while_alive[0]) is None  # a live writer's spool is left alone
        process.send_signal(signal.SIGKILL)
        process.wait()

    assert sorted(read_decisions(tmp_path).column("bytes").to_pylist()) == list(range(100))
    assert parquet_files(tmp_path) == []

    open_log(tmp_path).close()

    assert spools(tmp_path) == []
    [file] = parquet_files(tmp_path)
    assert sorted(pq.ParquetFile(file).read().column("bytes").to_pylist()) == list(range(100))


@pytest.mark.parametrize("cut", [1, 40, 240])
def test_a_spool_cut_short_keeps_its_whole_batches(tmp_path: Path, cut: int) -> None:
    spool = spool_of(tmp_path, 10, 20, 30, close=False)
    end_of_third = spool.bytes
    spool.close()
    os.truncate(spool.path, end_of_third - cut)

    assert read_decisions(tmp_path).num_rows == 30
    target = compact(spool.path)
    assert target is not None
    assert pq.ParquetFile(target).metadata.num_rows == 30


@pytest.mark.parametrize("content", [b"", b"\xff" * 7, b"\x16\x03\x01" * 50, b"PAR1"])
def test_a_spool_that_is_garbage_reads_as_empty_and_is_removed(tmp_path: Path, content: bytes) -> None:
    folder = partition(tmp_path, "r", "kafka")
    folder.mkdir(parents=True)
    garbage = folder / ".part-x.jsonl"
    garbage.write_bytes(content)

    assert read_decisions(tmp_path).num_rows == 0
    assert compact(garbage) is None
    assert list(folder.iterdir()) == []


def test_a_crash_between_rename_and_removal_does_not_double_rows(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, 10)
    kept = spool.path.read_bytes()
    target = compact(spool.path)
    spool.path.write_bytes(kept)

    assert read_decisions(tmp_path).num_rows == 10
    assert compact(spool.path) == target
    assert not spool.path.exists()
    assert read_decisions(tmp_path).num_rows == 10


def test_a_failed_compaction_leaves_the_spool_and_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = spool_of(tmp_path, 10)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        compact(spool.path)

    assert [found.name for found in spool.path.parent.iterdir()] == [spool.path.name]
    assert read_decisions(tmp_path).num_rows == 10


def test_large_spools_are_compacted_in_large_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_ROW_GROUP_ROWS", 100)
    target = compact(spool_of(tmp_path, 60, 60, 60, 60, 5).path)

    assert target is not None
    metadata = pq.ParquetFile(target).metadata
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [120, 120, 5]


def test_spools_are_rotated_by_size_and_by_age(tmp_path: Path, gate: FakeGate, open_log: OpenLog) -> None:
    by_size = open_log(tmp_path / "size", retention=Retention(rotate_bytes=1))
    by_size.decided(gate, publish(), rejection(), 0)
    until(lambda: len(parquet_files(tmp_path / "size")) == 1)
    by_age = open_log(tmp_path / "age", retention=Retention(rotate_s=0.05))
    by_age.decided(gate, publish(), rejection(), 0)
    until(lambda: len(parquet_files(tmp_path / "age")) == 1)

    by_age.decided(gate, publish(), rejection(), 0)
    by_age.close()
    assert read_decisions(tmp_path / "age").num_rows == 2


def test_files_that_grow_old_are_removed_though_nothing_is_decided(tmp_path: Path, open_log: OpenLog) -> None:
    clock = [0]
    open_log(tmp_path, monotonic=lambda: clock[0])
    old = compact(spool_of(tmp_path, 10).path)
    assert old is not None
    os.utime(old, (0, 0))
    clock[0] = 4_000 * SECOND_NS
    until(lambda: not old.exists())


def test_retention_removes_the_oldest_beyond_size_and_age(tmp_path: Path) -> None:
    for number in range(4):
        target = compact(spool_of(tmp_path, 10, name=f"x{number}").path)
        assert target is not None
        os.utime(target, (number * 100, number * 100))
    size = parquet_files(tmp_path)[0].stat().st_size

    assert prune(tmp_path, max_bytes=0, max_age_s=0, now_s=1e9) == 0
    assert prune(tmp_path, max_bytes=0, max_age_s=250, now_s=300) == 1
    assert prune(tmp_path, max_bytes=2 * size, max_age_s=0, now_s=300) == 1
    assert [path.name for path in parquet_files(tmp_path)] == ["x2.parquet", "x3.parquet"]
    assert prune(tmp_path, max_bytes=0, max_age_s=1, now_s=1e9) == 2
    assert list(tmp_path.iterdir()) == []  # empty partitions go too


def test_retention_goes_on_past_a_file_that_cannot_be_removed(tmp_path: Path) -> None:
    stuck = partition(tmp_path, "r", "kafka") / "a.parquet"
    stuck.mkdir(parents=True)  # not even root can unlink it
    os.utime(stuck, (0, 0))
    for name in ("b", "c"):
        target = compact(spool_of(tmp_path, 10, name=name).path)
        assert target is not None
        os.utime(target, (ord(name), ord(name)))

    [fault] = tidy(tmp_path, 0, 1, 100)
    assert fault.startswith(f"old decision files under {tmp_path} cannot be removed: ")
    assert str(stuck) in fault
    assert [path.name for path in parquet_files(tmp_path)] == ["a.parquet", "c.parquet"]


def test_retention_keeps_files_that_are_being_written_or_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = spool_of(tmp_path, 5, name="live", close=False)
    old = compact(spool_of(tmp_path, 10, name="old").path)
    assert old is not None
    os.utime(old, (0, 0))
    ended_one = spool_of(tmp_path, 20, name="ended").path
    seen: list[list[str]] = []
    write = compaction._copy

    def prune_meanwhile(spool: Path, file: Any) -> int:
        rows = write(spool, file)
        prune(tmp_path, max_bytes=1, max_age_s=1, now_s=1e9)  # as another process may at any time
        seen.append(sorted(path.name for path in spool.parent.iterdir()))
        return rows

    monkeypatch.setattr(compaction, "_copy", prune_meanwhile)
    assert compact(ended_one) is not None

    assert seen == [[".ended.jsonl", ".ended.parquet.inprogress", ".live.jsonl"]]
    assert read_decisions(tmp_path).num_rows == 25
    live.close()


def test_retention_that_removes_a_partition_does_not_stop_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = compact(spool_of(tmp_path, 10).path)
    assert target is not None
    stat = Path.stat

    def gone(self: Path, **options: Any) -> os.stat_result:
        if self == target:
            self.unlink(missing_ok=True)  # another process removes it between listing and looking
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", gone)
    assert tidy(tmp_path, 1, 1, 1e9) == []


def test_files_hold_texts_whatever_they_were_made_of(tmp_path: Path) -> None:
    target = compact(spool_of(tmp_path, 10).path)
    assert target is not None

    with pq.ParquetFile(target) as file:
        assert file.schema_arrow.equals(SCHEMA)
        assert [field.metadata for field in file.schema_arrow] == [field.metadata for field in SCHEMA]
        assert "DELTA_BINARY_PACKED" in file.metadata.row_group(0).column(0).encodings


def test_making_parquet_loads_nothing_that_arrow_can_do_without() -> None:
    code = (
        "import sys; from sluicegate.decisions import tidying; tidying._prepare();"
        "tidying.main([sys.argv[1], '0', '0']); assert 'pyarrow' in sys.modules;"
        "print([name for name in ('numpy', 'pandas') if sys.modules[name] is not None])"
    )
    done = subprocess.run([sys.executable, "-c", code, "none"], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_directory_that_cannot_be_made_loses_rows_not_traffic_and_recovers(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "decisions"
    blocked.write_text("a file is in the way")
    clock = [0]
    log = open_log(blocked, monotonic=lambda: clock[0])
    for _ in range(3):
        log.decided(gate, publish(), rejection(), 0)
    until(lambda: log.stats().dropped == 3)
    assert log.stats().file_errors == 1
    assert "rows are dropped and counted" in caplog.text

    blocked.unlink()
    clock[0] = 2 * SECOND_NS
    log.decided(gate, publish(), rejection(), 0)
    log.close()

    stats = log.stats()
    assert (stats.decided, stats.emitted, stats.dropped) == (4, 1, 3)
    assert read_decisions(blocked).num_rows == 1


def _removed(directory: Path) -> None:
    shutil.rmtree(directory)


def _moved(directory: Path) -> None:
    directory.rename(directory.with_name("kept"))


@pytest.mark.parametrize("away", [_removed, _moved])
def test_decisions_go_to_a_new_file_once_theirs_was_taken_away(
    tmp_path: Path,
    gate: FakeGate,
    open_log: OpenLog,
    caplog: pytest.LogCaptureFixture,
    away: Callable[[Path], None],
) -> None:
    directory = tmp_path / "decisions"
    log = open_log(directory)
    log.decided(gate, publish(), rejection(), 0)
    until(lambda: log.stats().emitted == 1)
    away(directory)

    log.decided(gate, publish(), rejection(), 0)
    log.close()

    assert log.stats().emitted == 2
    assert read_decisions(directory).num_rows == 1
    assert "was moved or removed" in caplog.text


_FULL_DISK = """
import resource, sys, time
from sluicegate.decisions import DecisionLog
from sluicegate.decisions.reading import read_decisions
from tests.decisions.conftest import FakeGate, publish, rejection
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
log = DecisionLog(sys.argv[1], "kafka", "main", detail="full", period_s=0.005)
decided = 0
for round in range(200):
    for number in range(50):
        log.allowed(FakeGate(), publish(client=f"{decided}-{hash(str(decided))}"), decided)
        decided += 1
    while round == 0 and log.stats().queued:  # few enough to fit
        time.sleep(0.001)
    stats = log.stats()
    assert stats.decided == decided == stats.emitted + stats.dropped + stats.queued, stats
    time.sleep(0.002)
log.close()
stats = log.stats()
print(stats.decided, stats.emitted, stats.dropped, stats.queued, stats.file_errors > 0)
print(read_decisions(sys.argv[1]).num_rows)
"""


def test_when_no_byte_more_can_be_written_dropped_rows_are_counted_exactly(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    decided, emitted, dropped, queued, failed = first.split()
    assert (decided, queued, failed) == ("10000", "0", "True")
    assert int(emitted) + int(dropped) == 10_000
    assert int(dropped) > 0
    assert int(emitted) > 0
    assert second == emitted


_ROOM_AGAIN = """
import json, logging, resource, sys
from sluicegate.decisions import DecisionLog, RefusalJournal
from sluicegate.decisions.reading import read_decisions
from sluicegate.decisions.journal import find
from tests.decisions.conftest import FakeGate, publish, rejection
from tests.waiting import until
lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
logging.getLogger("sluicegate").addHandler(handler)
clock = [0]
state = sys.argv[1]
journal = RefusalJournal(state, "kafka", "main")
log = DecisionLog(
    state + "/decisions", "kafka", "main", period_s=0.002, journal=journal, monotonic=lambda: clock[0]
)
def refuse(count):
    before = log.stats()
    ids = [log.decided(FakeGate(), publish(), rejection(), clock[0]).id for _ in range(count)]
    until(lambda: log.stats().queued == 0)
    now = log.stats()
    assert now.decided == now.emitted + now.dropped, now
    return ids, now.emitted - before.emitted, now.dropped - before.dropped
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
kept, written, lost = refuse(10)
assert (written, lost) == (10, 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # no file can grow any more
dropped = 0
full = []
for step in range(200):
    ids, written, lost = refuse(15)
    full += ids
    dropped += lost
    clock[0] += 1_000_000_000
assert dropped == 3_000, dropped
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
clock[0] += 40_000_000_000  # the longest wait, and a little
after, written, lost = refuse(10)
until(lambda: len(journal._waiting) == 0)
assert log.close()
stats = log.stats()
print(json.dumps({
    "dropped": stats.dropped, "emitted": stats.emitted, "decided": stats.decided,
    "read": read_decisions(state + "/decisions").num_rows,
    "lost": stats.journal_lost, "skipped": stats.journal_skipped,
    "missing": sum(find(state, id) is None for id in [*kept, *full, *after]),
    "kept": [find(state, id) is not None for id in (kept[0], full[-1], after[-1])],
    "files": stats.file_errors, "lines": lines,
}))
"""


def test_log_and_journal_come_back_when_there_is_room_and_have_counted_exactly(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", _ROOM_AGAIN, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["decided"] == 3_020
    assert (found["emitted"], found["dropped"]) == (20, 3_000)
    assert found["read"] == 20
    assert (found["lost"], found["skipped"]) == (found["missing"], 0)
    assert 1_990 <= found["lost"] <= 2_010  # the last 1,000 waited for it
    assert found["kept"] == [True, True, True]
    assert found["files"] <= 20  # of 200 rounds in 200 s: it was tried less and less often
    assert len(found["lines"]) == 4, found["lines"]
    assert any("3000 decisions were lost" in line for line in found["lines"])
    assert spools(tmp_path / "decisions") == []


def test_a_file_of_another_kind_or_a_later_version_is_refused_by_name(tmp_path: Path) -> None:
    folder = partition(tmp_path, "r", "kafka")
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), folder / "part-other.parquet")
    with pytest.raises(DecisionLogError, match=r"part-other.parquet.* is not a decision log"):
        read_decisions(tmp_path)

    later = SCHEMA.empty_table().replace_schema_metadata({VERSION_KEY: b"99"})
    pq.write_table(later, folder / "part-other.parquet")
    with pytest.raises(DecisionLogError, match="version 99, this release reads up to"):
        read_decisions(tmp_path)

    (folder / "part-other.parquet").write_bytes(b"PAR1 cut short")
    with pytest.raises(DecisionLogError, match="cannot read"):
        read_decisions(tmp_path)


def test_columns_that_an_older_file_lacks_are_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = compact(spool_of(tmp_path, 2).path)
    assert target is not None
    pq.write_table(pq.ParquetFile(target).read().drop_columns(["other_reasons"]), target)
    with pytest.raises(DecisionLogError, match="lacks columns of its schema version 2: other_reasons"):
        read_decisions(tmp_path)

    grown = [replace(column, since=3) if column.name == "other_reasons" else column for column in COLUMNS]
    monkeypatch.setattr("sluicegate.decisions.reading.COLUMNS", grown)
    table = read_decisions(tmp_path)
    assert table.num_rows == 2
    assert table.column("other_reasons").null_count == 2


def test_files_of_version_1_have_no_host(tmp_path: Path) -> None:
    target = compact(spool_of(tmp_path, 2).path)
    assert target is not None
    table = pq.ParquetFile(target).read().drop_columns(["host", "worker"])
    pq.write_table(table.replace_schema_metadata({VERSION_KEY: b"1"}), target)

    table = read_decisions(tmp_path)
    assert table.num_rows == 2
    assert table.column("host").null_count == table.column("worker").null_count == 2


def test_files_tell_host_and_worker(tmp_path: Path, gate: FakeGate, open_log: OpenLog) -> None:
    for worker in range(2):
        log = open_log(tmp_path, host=f"gw-{worker}", worker=worker)
        log.decided(gate, publish(), rejection(), 0)
        log.close()

    table = read_decisions(tmp_path).select(["host", "worker"]).to_pylist()
    assert sorted(row["host"] for row in table) == ["gw-0", "gw-1"]
    assert all(row["host"] == f"gw-{row['worker']}" for row in table)


def test_a_spool_of_a_later_version_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    path = spool_of(tmp_path, 2).path
    path.write_bytes(path.read_bytes().replace(b'"version":2', b'"version":99', 1))

    with pytest.raises(DecisionLogError, match=r"x\.jsonl' has decision schema version 99"):
        read_decisions(tmp_path)
    [fault] = tidy(tmp_path, 0, 0, 0)
    assert "stays for now" in fault
    assert spools(tmp_path) == [path]


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"factor":1.0', b'"factor":null'), (b'"messages":1', b'"messages":"many"'), (b'"time"', b'"t"')],
)
def test_a_damaged_line_does_not_take_others_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, old: bytes, new: bytes
) -> None:
    path = spool_of(tmp_path, 2, 3, 4).path
    lines = path.read_bytes().splitlines(keepends=True)
    assert old in lines[2]
    lines[2] = lines[2].replace(old, new)
    path.write_bytes(b"".join(lines))

    assert read_decisions(tmp_path).num_rows == 6
    assert "does not fit the schema" in caplog.text
    target = compact(path)
    assert pq.ParquetFile(target).metadata.num_rows == 6


def test_a_spool_taken_for_a_leftover_while_it_is_begun_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    taken = []

    def too_late(file: int, operation: int) -> None:
        monkeypatch.undo()
        [path] = spools(tmp_path)
        taken.append(compact(path))
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", too_late)
    spool_of(tmp_path, 2)

    assert taken == [None]
    assert read_decisions(tmp_path).num_rows == 2


def test_a_process_that_does_not_compact_leaves_that_to_another(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog
) -> None:
    log = open_log(tmp_path, compacting=False)
    log.decided(gate, publish(), rejection(), 0)
    until(lambda: log.stats().emitted == 1)
    assert ended(tmp_path) == ([], [])  # it is being written
    log.close()

    assert ended(tmp_path) == (spools(tmp_path), [])
    assert spools(tmp_path) != []
    assert parquet_files(tmp_path) == []
    command = [sys.executable, "-m", "sluicegate.decisions.tidying", str(tmp_path), "0", "0"]
    subprocess.run(command, check=True)
    assert spools(tmp_path) == []
    assert len(parquet_files(tmp_path)) == 1
    assert read_decisions(tmp_path).num_rows == 1


def test_reading_copes_with_a_spool_that_becomes_parquet_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = spool_of(tmp_path, 10)

    def listing_then_compaction(directory: Path) -> list[Path]:
        found = parquet_files(directory)
        compact(spool.path)
        return found

    monkeypatch.setattr("sluicegate.decisions.reading.parquet_files", listing_then_compaction)
    assert read_decisions(tmp_path).num_rows == 10


def test_two_processes_compact_a_leftover_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = spool_of(tmp_path, 10)
    inside: list[Any] = []
    write = compaction._write_parquet

    def compact_again(path: Path, target: Path) -> int:
        inside.append(compact(path))
        return write(path, target)

    monkeypatch.setattr(compaction, "_write_parquet", compact_again)
    assert compact(spool.path) is not None
    assert inside == [None]
    assert compact(spool.path) is None


def test_an_empty_directory_reads_as_an_empty_table(tmp_path: Path) -> None:
    table = read_decisions(tmp_path / "none")
    assert table.num_rows == 0
    assert table.schema.names == SCHEMA.names


def test_spark_and_others_skip_unfinished_files(tmp_path: Path) -> None:
    spool = spool_of(tmp_path, 1, close=False)
    assert spool.path.name.startswith(".")
    spool.close()


def test_a_spool_that_cannot_be_opened_hides_no_other(tmp_path: Path) -> None:
    unusable = partition(tmp_path, "r", "kafka") / ".a.jsonl"
    unusable.parent.mkdir(parents=True)
    unusable.symlink_to(unusable)  # not even root can open it
    spool = spool_of(tmp_path, 5, name="b").path
    found, [fault] = ended(tmp_path)
    assert found == [spool]
    assert str(unusable) in fault
    assert tidy(tmp_path, 0, 0, 0) == [fault]
    assert spools(tmp_path) == [unusable]
