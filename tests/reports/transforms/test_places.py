"""One limit in several gateways and workers: who decided, and that it does not matter to the verdict."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reports import frames
from tests.reports.frames import trial
from tests.reports.transforms.test_skew import acked

from sluicegate_reports.jobs import rate_figures
from sluicegate_reports.transforms import ahead, skew
from sluicegate_reports.transforms.by_place import Place, by_place, names
from sluicegate_reports.transforms.here import Here
from sluicegate_reports.transforms.parts import Figures, OfTopic

Row = dict[str, Any]
_TOLD_APART = {"places", "causes"}
"""Figures that tell places apart."""


def figures_of(log: Sequence[Row], slice_us: int = 0) -> dict[str, Any]:
    rates = rate_figures.rates([trial(limit=5)], {})
    figures = Figures([OfTopic("rates", rates.of_slice, rates.together)])
    return Here(frames.topics(log, slice_us=slice_us)).measured(figures)


def test_rows_are_told_apart_by_gateway_host_and_worker() -> None:
    log: list[Row] = [
        {"at": 0},
        {"at": 1, "host": "a", "worker": 0},
        {"at": 2, "host": "a", "worker": 1},
        {"at": 3, "host": "b", "worker": 1},
        {"at": 4, "host": "a", "worker": 1, "gateway": "other"},
        {"at": 5, "host": "a", "worker": 1},
    ]
    (topic,) = frames.topics(log)
    (piece,) = topic.decisions("time_us", "gateway", "host", "worker")
    found = {place: len(own.number("time_us")) for place, own in by_place(piece)}
    assert found == {
        Place("main"): 1,  # of a log of version 1
        Place("main", "a", 0): 1,
        Place("main", "a", 1): 2,
        Place("main", "b", 1): 1,
        Place("other", "a", 1): 1,
    }


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ([Place("main", "a")], ["main"]),
        ([Place("a", "h"), Place("b", "h")], ["a", "b"]),
        ([Place("main", "a"), Place("main", "")], ["main on an unnamed host", "main on a"]),
        ([Place("main", "a", 0), Place("main", "a", 1)], ["main, worker 0", "main, worker 1"]),
    ],
)
def test_names_tell_what_sets_places_apart(places: list[Place], told: list[str]) -> None:
    assert list(names(places).values()) == told


_PLACES = [("a", 0), ("a", 1), ("b", 0)]
_DECISION = st.tuples(
    st.integers(0, 9_999_999),
    st.integers(1, 4),
    st.sampled_from(["allow", "reject", "delay"]),
    st.sampled_from(_PLACES),
)


@settings(max_examples=40)
@given(
    decided=st.lists(_DECISION, min_size=1, max_size=40),
    window=st.sampled_from([0, 100]),
    slice_us=st.sampled_from([0, 1_000_000]),
)
def test_cutting_a_log_into_those_of_several_workers_changes_no_figure(
    decided: list[tuple[int, int, str, tuple[str, int]]], window: int, slice_us: int
) -> None:
    alone: list[Row] = [
        {
            "at": at_us / 1e6,
            "messages": messages,
            "action": action,
            "policy": None if action == "allow" else "max_publish_rate",
            "delay": 200_000_000 if action == "delay" else 0,
            "window": window if action == "allow" else 0,
        }
        for at_us, messages, action, _ in decided
    ]
    cut = [
        {**row, "host": host, "worker": worker}
        for row, (*_, (host, worker)) in zip(alone, decided, strict=True)
    ]
    cut.sort(key=lambda row: (row["host"], row["worker"]))  # one log after the other
    one, several = figures_of(alone, slice_us), figures_of(cut, slice_us)
    assert {name: rows for name, rows in several.items() if name not in _TOLD_APART} == {
        name: rows for name, rows in one.items() if name not in _TOLD_APART
    }
    for kind in ("admitted", "refused"):
        assert sum(row[kind] for row in several["places"]) == sum(row[kind] for row in one["places"])


def test_workers_that_each_keep_the_whole_limit_exceed_it_together() -> None:
    log: list[Row] = [
        {"at": 1 + n / 5, "messages": 1, "host": host} for host in ("a", "b") for n in range(40)
    ]
    of = figures_of(log)
    (law,) = of["laws"]
    assert law["excess"] > 30
    (cause,) = of["causes"]
    assert cause["names"] == ["main on a", "main on b"]


def test_workers_of_one_host_share_a_clock_and_hosts_do_not() -> None:
    def bounds(*places: tuple[str, int]) -> list[tuple[str, str]]:
        log: list[Row] = [
            {"at": n + 0.002, "host": host, "worker": worker} for n, (host, worker) in enumerate(places)
        ]
        topics = frames.topics(log, [acked(n + 0.007, 7) for n in range(len(places))])
        rows = [row for topic in topics for row in skew.spans(topic.topic_key, [skew.of_slice(topic)])]
        return [(row["gateway"], row["host"]) for row in ahead.skews(rows)]

    assert bounds(("a", 0), ("a", 1)) == [("main", "a")]
    assert bounds(("a", 0), ("b", 0)) == []  # nobody can tell whose clock it was
