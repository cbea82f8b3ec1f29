"""What is decided arrives in the files, as a row or in a window, and every decision is accounted for."""

import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.decisions.conftest import SECOND_NS, FakeGate, publish, rejection
from tests.waiting import LONG_S, until

from sluicegate.decisions import DecisionLog
from sluicegate.decisions.files import LogFiles
from sluicegate.decisions.log import LogStats
from sluicegate.decisions.reading import read_decisions
from sluicegate.decisions.schema import SCHEMA
from sluicegate.model import (
    Action,
    Decision,
    HeaderChange,
    Operation,
    OperationKind,
    Outcome,
    Reason,
    TopicName,
)

OpenLog = Callable[..., DecisionLog]


def balanced(stats: LogStats) -> bool:
    return stats.decided == stats.emitted + stats.dropped + stats.queued and stats.queued >= 0


def test_a_rejection_becomes_a_row_with_everything_known_about_it(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog
) -> None:
    log = open_log(
        tmp_path, wall_clock=lambda: 1_700_000_000 * SECOND_NS, monotonic=lambda: 50 * SECOND_NS, run="r1"
    )
    second = Reason("other", Outcome.PRECONDITION, "later", 1, 2, "broker")
    decision = Decision(Action.REJECT, (*rejection().reasons, second), delay_ns=5, factor=0.5)

    stamped = log.decided(gate, publish(subscription="s"), decision, 49 * SECOND_NS)
    log.close()

    table = read_decisions(tmp_path)
    assert table.schema.equals(SCHEMA, check_metadata=True)
    [row] = table.to_pylist()
    assert row.pop("time").timestamp() == 1_699_999_999
    assert row == {
        "run": "r1",
        "system": "kafka",
        "door": "proxy",
        "gateway": "main",
        "host": socket.gethostname(),
        "worker": 0,
        "principal": "User:anna",
        "client": "app@10.0.0.7:5000",
        "namespace": "orders",
        "topic": "orders.eu",
        "subscription": "s",
        "operation": "publish",
        "policy": "max_producers_per_topic",
        "level": "topic",
        "action": "reject",
        "reason": "limit_reached",
        "current": 10.0,
        "limit": 10.0,
        "factor": 0.5,
        "delay": 5,
        "bytes": 300,
        "messages": 3,
        "decision_cost": None,
        "policy_version": 7,
        "decision_id": stamped.id,
        "decisions": 1,
        "window": 0,
        "other_reasons": [
            {"policy": "other", "level": "broker", "reason": "precondition", "current": 1.0, "limit": 2.0}
        ],
    }


def test_what_is_decided_in_one_turn_keeps_its_order_while_the_clock_is_adjusted(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog
) -> None:
    wall = [1_700_000_000 * SECOND_NS]

    def adjusted() -> int:
        wall[0] -= 1_000  # as a machine does whose clock is ahead
        return wall[0]

    log = open_log(tmp_path, wall_clock=adjusted, monotonic=lambda: 50 * SECOND_NS)
    for written in (1, 2):
        log.decided(gate, publish(), rejection(), 49 * SECOND_NS)
        until(lambda written=written: log.stats().emitted == written, "it is written")  # type: ignore[misc]
    log.close()
    assert len(set(read_decisions(tmp_path).column("time").to_pylist())) == 1


def test_a_stall_between_the_clocks_moves_no_row(tmp_path: Path, gate: FakeGate, open_log: OpenLog) -> None:
    passed = [0]

    def stalling() -> int:
        passed[0] += 5 * SECOND_NS  # the machine runs something else once the other clock has been read
        return 1_700_000_050 * SECOND_NS + passed[0]

    log = open_log(
        tmp_path, wall_clock=stalling, monotonic=lambda: 50 * SECOND_NS + passed[0], period_s=LONG_S
    )
    log.decided(gate, publish(), rejection(), 49 * SECOND_NS)
    log.close()
    [at] = read_decisions(tmp_path).column("time").to_pylist()
    assert at.timestamp() == 1_700_000_049


def test_a_decision_is_stamped_and_otherwise_unchanged(gate: FakeGate, open_log: OpenLog) -> None:
    log = open_log(None)
    decision = replace(
        rejection(delay_ns=9, factor=0.25, observed=True), headers=HeaderChange(remove=frozenset({"a"}))
    )

    stamped = log.decided(gate, publish(), decision, 0)

    assert re.fullmatch(r"[0-9a-z]{4,}-[0-9a-z]+", stamped.id)
    assert stamped.policy_version == 7
    assert stamped == replace(decision, id=stamped.id, policy_version=7)
    assert log.decided(gate, publish(), decision, 0).id != stamped.id


@pytest.mark.parametrize("action", list(Action))
def test_what_was_only_observed_is_marked_would(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog, action: Action
) -> None:
    log = open_log(tmp_path)

    log.decided(gate, publish(), rejection(action, observed=True), 0)
    log.decided(gate, publish(), rejection(action), 1)
    log.close()

    assert read_decisions(tmp_path).column("action").to_pylist() == [f"would_{action}", str(action)]


def test_full_detail_writes_a_row_for_every_allow(tmp_path: Path, gate: FakeGate, open_log: OpenLog) -> None:
    log = open_log(tmp_path, detail="full")

    for number in range(3_000):
        log.allowed(gate, publish(messages=1, bytes=number), number)
    log.close()

    table = read_decisions(tmp_path)
    assert table.column("bytes").to_pylist() == list(range(3_000))
    assert set(table.column("action").to_pylist()) == {"allow"}
    assert set(table.column("client").to_pylist()) == {"app@10.0.0.7:5000"}
    assert table.column("decision_id").null_count == 3_000
    assert log.stats() == LogStats(3_000, 3_000, 0, 0, 0, 0, 0, 0)


def test_one_operation_object_used_again_does_not_change_earlier_rows(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog
) -> None:
    log = open_log(tmp_path, detail="full", period_s=10)
    op = publish()

    for number in range(5):
        op.bytes = number
        log.allowed(gate, op, number)
    log.close()

    assert read_decisions(tmp_path).column("bytes").to_pylist() == [0, 1, 2, 3, 4]


def test_summary_sums_allows_up_in_windows_of_100_ms(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog
) -> None:
    # By its clock all windows are over: a round in between would write what there is of one.
    log = open_log(tmp_path, wall_clock=lambda: SECOND_NS, monotonic=lambda: SECOND_NS, period_s=LONG_S)
    for now_ms in (0, 50, 99, 100, 350):
        log.allowed(gate, publish(messages=2, bytes=10), now_ms * 1_000_000)
    log.allowed(gate, Operation(OperationKind.DISPATCH, "orders.eu", messages=7, bytes=70), 0)
    log.close()

    columns = ["operation", "time", "decisions", "messages", "bytes", "window", "action", "principal"]
    rows = [tuple(row.values()) for row in read_decisions(tmp_path).select(columns).to_pylist()]
    summed = sorted((kind, round(time.timestamp() * 1000), *rest[:4]) for kind, time, *rest in rows)
    assert summed == [
        ("dispatch", 0, 1, 7, 70, 100),
        ("publish", 0, 3, 6, 30, 100),
        ("publish", 100, 1, 2, 10, 100),
        ("publish", 300, 1, 2, 10, 100),
    ]
    assert {row[-2:] for row in rows} == {("allow", None)}
    assert log.stats().emitted == 6


def test_an_idle_window_is_written_without_waiting_for_more_traffic(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog
) -> None:
    log = open_log(tmp_path)

    log.allowed(gate, publish(), time.monotonic_ns())

    until(lambda: read_decisions(tmp_path).num_rows == 1)


@pytest.mark.parametrize("detail", ["summary", "full"])
def test_nothing_is_lost_while_one_thread_decides_and_the_other_writes(
    tmp_path: Path, open_log: OpenLog, detail: str
) -> None:
    gates = [FakeGate(TopicName(f"t{number}", "default")) for number in range(50)]
    log = open_log(tmp_path, detail=detail, period_s=0.001, max_rows_queued=1_000_000)
    sent = 0
    for number in range(60_000):
        gate = gates[number % 50]
        if number % 10:
            log.allowed(gate, publish(bytes=number), time.monotonic_ns())
        else:
            log.decided(gate, publish(bytes=number), rejection(), time.monotonic_ns())
        sent += number
        if number % 5_000 == 0:
            assert balanced(log.stats())
    log.close()

    table = read_decisions(tmp_path)
    assert sum(table.column("decisions").to_pylist()) == 60_000
    assert sum(table.column("bytes").to_pylist()) == sent
    assert log.stats() == LogStats(60_000, 60_000, 0, 0, 0, 0, 0, 0)


def test_a_stuck_writer_never_blocks_and_every_dropped_row_is_counted(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, stuck = threading.Event(), threading.Event()
    write = LogFiles.write

    def hang(self: LogFiles, batch: Any, decisions: int, now_ns: int) -> bool:
        stuck.set()
        assert released.wait(LONG_S)
        return write(self, batch, decisions, now_ns)

    monkeypatch.setattr(LogFiles, "write", hang)
    log = open_log(tmp_path, max_rows_queued=100)
    log.decided(gate, publish(), rejection(), 0)
    assert stuck.wait(LONG_S)

    for _ in range(1_000):
        log.decided(gate, publish(), rejection(), 0)
        assert balanced(log.stats())
    assert log.stats() == LogStats(
        decided=1_001,
        emitted=0,
        dropped=900,
        queued=101,
        file_errors=0,
        journal_errors=0,
        journal_skipped=0,
        hook_errors=0,
    )

    released.set()
    log.close()
    stats = log.stats()
    assert (stats.decided, stats.emitted, stats.dropped, stats.queued) == (1_001, 101, 900, 0)
    assert read_decisions(tmp_path).num_rows == 101


def test_a_writer_that_fails_in_an_unforeseen_way_counts_each_decision_once(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(LogFiles, "write", lambda *arguments: 1 // 0)
        log = open_log(tmp_path)
        log.decided(gate, publish(), rejection(), 0)
        until(lambda: log.stats().dropped == 1)
    log.decided(gate, publish(), rejection(), 0)
    log.close()
    assert (log.stats().decided, log.stats().emitted, log.stats().queued) == (2, 1, 0)


def test_a_slow_disk_drops_rows_but_not_the_count(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = LogFiles.write

    def slowly(self: LogFiles, batch: Any, decisions: int, now_ns: int) -> bool:
        until(lambda: log.stats().dropped)
        return write(self, batch, decisions, now_ns)

    monkeypatch.setattr(LogFiles, "write", slowly)
    log = open_log(tmp_path, detail="full", max_rows_queued=500)
    for _ in range(20_000):
        log.allowed(gate, publish(), 0)
        assert balanced(log.stats())
    log.close()

    stats = log.stats()
    assert stats.decided == 20_000
    assert stats.dropped > 0
    assert stats.queued == 0
    assert stats.emitted + stats.dropped == 20_000
    assert read_decisions(tmp_path).num_rows == stats.emitted


def test_closing_gives_up_on_a_disk_that_never_answers(
    tmp_path: Path, gate: FakeGate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    monkeypatch.setattr(
        LogFiles, "write", lambda self, batch, decisions, now_ns: released.wait(LONG_S) and False
    )
    log = DecisionLog(tmp_path, "kafka", "main", period_s=0.01)
    log.decided(gate, publish(), rejection(), 0)

    assert log.close(timeout_s=0.2) is False
    assert "1 decisions are lost" in caplog.text
    released.set()
    assert log.close()


def test_decisions_after_closing_count_as_dropped(tmp_path: Path, gate: FakeGate, open_log: OpenLog) -> None:
    log = open_log(tmp_path)
    log.close()

    log.allowed(gate, publish(), 0)
    log.decided(gate, publish(), rejection(), 0)

    assert log.stats() == LogStats(2, 0, 2, 0, 0, 0, 0, 0)


def test_plugins_get_batches_of_decisions_other_than_plain_allows(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog
) -> None:
    seen: list[Any] = []
    log = open_log(tmp_path, detail="full", on_batch=seen.extend)
    log.allowed(gate, publish(), 0)
    stamped = log.decided(gate, publish(), rejection(), 0)
    log.close()

    assert [row["decision_id"] for row in seen] == [stamped.id]
    assert set(seen[0]) == set(SCHEMA.names)


def test_a_plugin_that_raises_is_counted_and_the_log_continues(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(batch: Any) -> None:
        raise RuntimeError("no such table")

    log = open_log(tmp_path, on_batch=broken)
    for count in (1, 2):
        log.decided(gate, publish(), rejection(), 0)
        until(lambda count=count: log.stats().hook_errors == count)  # type: ignore[misc]
    log.close()

    assert read_decisions(tmp_path).num_rows == 2
    assert caplog.text.count("sluicegate_decisions: a plugin raised") == 1
    assert "no such table" in caplog.text


def test_one_decision_that_does_not_fit_the_schema_does_not_take_others_with_it(
    tmp_path: Path, gate: FakeGate, open_log: OpenLog, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path, period_s=10)
    bad: Any = "many"
    for messages in (1, 2, bad, 4):
        log.decided(gate, replace(publish(), messages=messages), rejection(), 0)
    log.close()

    assert read_decisions(tmp_path).column("messages").to_pylist() == [1, 2, 4]
    assert (log.stats().emitted, log.stats().dropped) == (3, 1)
    assert "does not fit the schema" in caplog.text


def test_without_a_directory_nothing_is_written_and_all_is_counted(gate: FakeGate, open_log: OpenLog) -> None:
    log = open_log(None)
    log.decided(gate, publish(), rejection(), 0)
    log.close()

    assert log.stats() == LogStats(1, 1, 0, 0, 0, 0, 0, 0)
