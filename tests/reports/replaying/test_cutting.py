"""Topics that are cut at pauses are replayed with the same result."""

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.reports import recorded
from tests.reports.replaying import door
from tests.reports.replaying.door import START_US, candidate

from sluicegate_reports.jobs.replay import Replay, findings, replay
from sluicegate_reports.replaying.candidate import Candidate, read_candidate
from sluicegate_reports.replaying.cutting import Cuts, cuts, cuts_of
from sluicegate_reports.replaying.marks import Mark

S = 1_000_000
SLICE_ROWS = 3
REJECT = "max_publish_rate: 2\non_limit: {max_publish_rate: reject}"


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")


def found_in(tried: Candidate, rows: Sequence[dict[str, Any]], slice_rows: int = SLICE_ROWS) -> Cuts:
    """The slices of rows of demand, each of which is a second of its own."""
    return cuts_of([second(row) for row in rows], tried, slice_rows)


def second(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `demand.seconds`."""
    most = {f"most_{name}": row[name] for name in ("messages", "bytes")}
    held, windows = (int(row["mark"] == mark) for mark in (Mark.HELD, Mark.WINDOW))
    at = {"first_us": row["at_us"], "last_us": row["at_us"]}
    return {**row, **at, **most, "topic_id": 1, "rows": 1, "held": held, "windows": windows}


def together(slices: Sequence[Sequence[dict[str, Any]]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The counts of all slices by place and policy."""
    counts: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in (row for rows in slices for row in rows):
        known = counts.setdefault((row["topic"], row["principal"], row["operation"], row["policy"]), {})
        for name, value in row.items():
            if name in ("current", "limit"):
                continue
            if isinstance(value, int):
                before = known.get(name, 0)
                known[name] = max(before, value) if name.startswith("longest") else before + value
        share = (row["current"] or 0) / (row["limit"] or 1)
        known["worst"] = max(known.get("worst", 0), share)
    return counts


@st.composite
def files(draw: st.DrawFn) -> str:
    """Policies that the load below meets now and then."""
    names = ("max_publish_rate", "max_dispatch_rate", "max_subscription_dispatch_rate")
    lines = [f"{name}: {draw(st.sampled_from([0, 2, 9, 40]))}" for name in names]
    lines += [f"{name}_bytes: {draw(st.sampled_from([0, 500, 5000]))}" for name in names]
    lines.append(f"max_message_size: {draw(st.sampled_from([0, 300]))}")
    lines.append(f"burst_seconds: {draw(st.sampled_from(['0.01', '0.25', '1', '5']))}")
    on_limit = draw(st.sampled_from(["delay", "reject", "drop"]))
    lines.append(f"on_limit: {{max_publish_rate: {on_limit}, max_publish_rate_bytes: {on_limit}}}")
    return "\n".join(lines)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1_000, 50_000, 300_000, S + 1, 2 * S, 5 * S, 20 * S]),
        st.sampled_from(["publish", "publish", "dispatch"]),
        st.sampled_from(["anna", "ben", "cleo"]),
        st.integers(1, 5),
        st.integers(0, 1000),
        st.sampled_from([Mark.PLAIN, Mark.PLAIN, Mark.REFUSED, Mark.DROPPED]),
    ),
    min_size=8,
    max_size=40,
)


@settings(max_examples=100, deadline=None)
@given(steps=_STEPS, policies=files(), max_hold=st.sampled_from(["1h", "10s", "500ms"]))
def test_slices_give_what_the_whole_gives(steps: list[tuple[Any, ...]], policies: str, max_hold: str) -> None:
    with TemporaryDirectory() as folder:
        candidate(Path(folder), policies)
        file = Path(folder) / "candidate.yaml"
        file.write_text(file.read_text().replace("max_hold: 1h", f"max_hold: {max_hold}"))
        tried = read_candidate(file, {})
    rows, at_us = [], START_US
    for step_us, kind, client, *what in steps:
        at_us += step_us
        of = f"s-{client}" if kind == "dispatch" else None
        rows.append(door.row(at_us, kind, f"{client}-{kind}", *what, subscription=of))
    ends = [0, *found_in(tried, rows).starts.get(1, []), at_us + 1]
    slices = [
        door.replay(tried, [row for row in rows if begin <= row["at_us"] < end])
        for begin, end in pairwise(ends)
    ]
    assert together(slices) == together([door.replay(tried, rows)])


def pauses(topic: str = recorded.TOPIC, seed: int = 1) -> list[dict[str, Any]]:
    """Six minutes, each of which begins with some operations."""
    rng = random.Random(seed)
    return [
        recorded.decision(
            minute * 60 * S + rng.randrange(3 * S),
            rng.choice(["allow", "reject"]),
            topic=topic,
            principal=rng.choice(["User:a", "User:b"]),
        )
        for minute in range(6)
        for _ in range(6)
    ]


def sorted_rows(replayed: Replay) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in replayed.frame.collect()), key=str)


@pytest.mark.parametrize("on_limit", ["delay", "reject"])
def test_a_log_with_pauses_is_cut_with_the_same_result(
    spark: SparkSession, tmp_path: Path, on_limit: str
) -> None:
    tried = candidate(tmp_path, f"max_publish_rate: 1\non_limit: {{max_publish_rate: {on_limit}}}")
    rows = [*pauses(), *pauses("bills", 2), recorded.decision(0, topic="few")]
    recorded.write_decisions(tmp_path / "log", rows)
    whole, cut = (replay(spark, tmp_path / "log", tried, rows) for rows in (1_000, SLICE_ROWS))
    starts = cuts(cut.demand, tried, SLICE_ROWS).starts
    assert [len(of_topic) for of_topic in starts.values()] == [5, 5]
    assert sorted_rows(cut) == sorted_rows(whole)
    assert {row[1] for row in findings(cut).tables()["scope"].rows} == {"exact"}
    assert not cut.long_tasks


def test_slices_begin_after_pauses_in_which_buckets_fill(tmp_path: Path) -> None:
    rows = [door.row(START_US + minute * 60 * S + n) for minute in range(4) for n in range(4)]
    expected = [START_US + minute * 60 * S for minute in (1, 2, 3)]
    assert found_in(candidate(tmp_path, REJECT), rows).starts == {1: expected}
    assert found_in(candidate(tmp_path, REJECT), rows, 8).starts == {1: expected[1:2]}
    # 400 bytes take 80 s to refill.
    assert not found_in(candidate(tmp_path, "max_publish_rate_bytes: 5"), rows).starts


@pytest.mark.parametrize(
    ("on_limit", "pause_s", "cut"), [("reject", 9, 0), ("reject", 12, 1), ("delay", 12, 0)]
)
def test_refused_operations_leave_no_more_than_an_empty_bucket(
    tmp_path: Path, on_limit: str, pause_s: int, cut: int
) -> None:
    tried = candidate(
        tmp_path, f"max_publish_rate: 1\nburst_seconds: 10\non_limit: {{max_publish_rate: {on_limit}}}"
    )
    rows = [door.row(START_US + n) for n in range(20)] + [door.row(START_US + 20 + pause_s * S)]
    assert len(found_in(tried, rows).starts.get(1, [])) == cut


@pytest.mark.parametrize(
    ("policies", "mark", "why"),
    [
        (REJECT, Mark.PLAIN, "no pause in it is long enough for all buckets to fill"),
        ("max_producers_per_topic: 1", Mark.PLAIN, "max_producers_per_topic depends on all that came"),
        ("max_unacked_messages_per_consumer: 1", Mark.PLAIN, "max_unacked_messages_per_consumer depends on"),
        (REJECT, Mark.HELD, "operations were held in it when it was recorded"),
        (REJECT, Mark.WINDOW, "its allows are known in windows"),
    ],
)
def test_a_long_topic_that_is_not_cut_is_told(tmp_path: Path, policies: str, mark: Mark, why: str) -> None:
    pause_us = S if why.startswith("no pause") else 60 * S
    rows = [door.row(START_US + n * pause_us, mark=mark) for n in range(4 * SLICE_ROWS)]
    cut = found_in(candidate(tmp_path, policies), rows)
    assert not cut.starts
    [note] = cut.notes
    assert note.startswith(f"12 rows of {door.TOPIC} are replayed by one task, as {why}")


def test_plugins_that_did_not_come_with_the_product_keep_topics_whole(tmp_path: Path) -> None:
    rows = [door.row(START_US + n * 60 * S) for n in range(4 * SLICE_ROWS)]
    (tmp_path / "remembering.py").write_text(
        "from sluicegate.hooks import hookimpl\n\n\n@hookimpl\n"
        "def sluicegate_policy_checks(topic, policies, context):\n    return []\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        cut = found_in(candidate(tmp_path, REJECT, "plugins: [remembering]\n"), rows)
    assert not cut.starts
    assert "may depend on all that came before" in cut.notes[0]
