"""What a report tells of several gateways and workers under one limit."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from tests.gateway import echo_plugin
from tests.gateway.lab import on_uvloop, upstream
from tests.gateway.test_embedded import Client, config, layer
from tests.reports import recorded
from tests.reports.frames import trial

from sluicegate.decisions import DecisionLog
from sluicegate.engine.gate import DecisionSink
from sluicegate.processes.in_process import EmbeddedGateway
from sluicegate.runtime.plugins import CHOICE
from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.jobs.fleet import apart, fleet_notes, fleet_sections
from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.jobs.usage import usage
from sluicegate_reports.model.results import Arm, RunFacts
from sluicegate_reports.model.runs import Run, write_run
from sluicegate_reports.model.verdict import Verdict

Row = dict[str, Any]


def place(host: str, worker: int = 0, admitted: int = 30, lane: int = 0) -> Row:
    where = {"gateway": "main", "host": host, "worker": worker}
    return {"lane": lane, "source": "log", **where, "admitted": admitted, "refused": 7}


def bounds(host: str, low_us: int, high_us: int, who: str = "*") -> Row:
    arm = {"system": "kafka", "door": "proxy", "gateway": "main", "host": host, "who": who, "pairs": 3}
    return {**arm, "at_least_us": low_us, "at_most_us": high_us}


@pytest.mark.parametrize(
    ("rows", "most_us"),
    [
        ([bounds("a", -1_000, 2_000), bounds("b", -500, 500)], 2_500),
        ([bounds("a", 0, 10), bounds("b", 3_000, 3_010)], 3_010),
        ([bounds("a", 0, 10)], None),
        ([bounds("a", 0, 10), bounds("a", -99, 99, "p1"), bounds("b", 0, 10, "p1")], 10),
        ([bounds("a", 20, 10), bounds("b", 0, 0)], 20),  # drifted
    ],
)
def test_clocks_of_hosts_are_as_far_apart_as_messages_allow(rows: list[Row], most_us: float | None) -> None:
    assert apart({"a", "b"}, rows) == most_us


def test_one_place_has_no_table_and_no_note() -> None:
    measures = Measures(places=[place("a")])
    assert list(fleet_sections([trial()], measures)) == []
    assert list(fleet_notes([trial()], measures)) == []


def test_workers_of_one_host_have_a_table_and_no_note() -> None:
    measures = Measures(places=[place("a", 0, 30), place("a", 1, 70)])
    (section,) = fleet_sections([trial(limit=10)], measures)
    (table,) = section.tables
    trials = ("max_publish_rate", "steady", "kafka", "proxy", "orders")
    assert table.rows == (
        (*trials, "main", "a", 0, "messages", 30, 7, 30.0),
        (*trials, "main", "a", 1, "messages", 70, 7, 70.0),
    )
    assert list(fleet_notes([trial()], measures)) == []


@pytest.mark.parametrize(
    ("skews", "told"),
    [
        (
            [bounds("a", -1_000, 2_000), bounds("b", -500, 500)],
            "as messages show, their clocks differ by 2.5 ms at most, so excess and shortfall may be off by "
            "what the limit gives in that time, max_publish_rate 5 messages at 2,000 messages/s",
        ),
        (
            [],
            "no message shows by how much their clocks differ, and they are taken to agree; for each ms of a "
            "difference excess and shortfall may be off by what the limit gives in that time, "
            "max_publish_rate 2 messages at 2,000 messages/s",
        ),
    ],
)
def test_clocks_of_several_hosts_bound_the_verdict(skews: list[Row], told: str) -> None:
    measures = Measures(places=[place("a"), place("b")], skews=skews)
    (note,) = fleet_notes([trial(limit=2_000)], measures)
    assert note == f"kafka proxy: one limit was kept on the hosts a, b: {told}"


_BURST = 60


@pytest.fixture
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


def _sink(log: DecisionLog, _: object) -> DecisionSink:
    return cast("DecisionSink", log)


def serve(logs: Sequence[Path]) -> None:
    """Each gateway, on a host of its own, admits at once what the whole limit allows of one topic."""

    @on_uvloop
    async def play() -> None:
        async with upstream() as port:
            for number, folder in enumerate(logs):
                log = DecisionLog(folder, "echo", "b1", "full", host=f"gw-{number}", worker=number)
                gateway = EmbeddedGateway(
                    config(port),
                    [layer(max_publish_rate=1, burst_seconds=_BURST)],
                    plugins=(echo_plugin,),
                    make_sink=partial(_sink, log),
                )
                async with gateway:
                    client = await Client.to(gateway)
                    for _ in range(_BURST):
                        assert await client.say("publish orders 10") == "publish orders 10"
                    client.close()
                await asyncio.to_thread(log.close)

    play()


@pytest.mark.usefixtures("no_entry_points")
def test_the_logs_of_two_gateways_are_judged_as_one_run(tmp_path: Path) -> None:
    logs = [tmp_path / "one", tmp_path / "two"]
    run = tmp_path / "run"
    run.mkdir()
    begin = datetime.now(UTC)
    serve(logs)
    end = datetime.now(UTC)
    tried = trial(limit=1, system="echo", burst_seconds=float(_BURST), start=begin, end=end)
    write_run(run, Run(RunFacts("r", "", "", arms=(Arm("echo", "proxy"),), started=begin), (tried,)))

    (alone,) = compare_run(None, run, logs[:1]).matrix
    assert alone.verdict is not Verdict.OFF
    results = compare_run(None, run, logs)
    (cell,) = results.matrix
    assert cell.verdict is Verdict.OFF
    assert "2 gateways (b1 on gw-0, worker 0, b1 on gw-1, worker 1) each kept the whole limit" in cell.text
    (table,) = [each for section in results.sections for each in section.tables if each.name == "gateways"]
    assert [row[5:11] for row in table.rows] == [
        ("b1", f"gw-{number}", number, "messages", _BURST, 0) for number in range(2)
    ]
    assert any("kept on the hosts gw-0, gw-1: no message shows" in note for note in results.notes)

    # The same logs in one folder, each in its own, and one of them named twice.
    together = tmp_path / "logs"
    together.mkdir()
    for log in logs:
        log.rename(together / log.name)
    again = compare_run(None, run, [together, together / "one"])
    assert [each.figure for each in again.matrix] == [cell.figure]


def test_rows_of_other_runs_are_left_out_unless_their_log_is_named(tmp_path: Path) -> None:
    recorded.make_run(tmp_path / "run")
    other = recorded.decision(5_000, run="another", host="gw-1")
    recorded.write_decisions(tmp_path / "log", [other])

    (tmp_path / "log").rename(tmp_path / "run" / "decisions" / "gw-1")
    left_out = compare_run(None, tmp_path / "run")
    assert any("rows of another run, another, are left out" in note for note in left_out.notes)
    named = compare_run(None, tmp_path / "run", [tmp_path / "run" / "decisions" / "gw-1"])
    assert not any("of another run" in note for note in named.notes)


def test_usage_sums_up_the_logs_that_a_folder_holds(tmp_path: Path) -> None:
    for host in ("gw-1", "gw-2"):
        recorded.write_decisions(tmp_path / host, [recorded.decision(0, host=host, messages=3)])

    written: list[pa.Table] = []
    usage(tmp_path, None, None, written.append)
    assert [table["published_messages"].to_pylist() for table in written] == [[6]]
