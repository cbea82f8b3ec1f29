"""Limits from a small baseline, as a file that `sluicegate check` accepts."""

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.reports.frames import at

from sluicegate.cli import main
from sluicegate.decisions.schema import SCHEMA
from sluicegate_reports.jobs.recommend import RecommendError, recommended
from sluicegate_reports.recommending.baseline import COLUMNS, Baseline
from sluicegate_reports.recommending.policy_file import Limit, limit_of, policy_file, round_up


def log(*rows: dict[str, object]) -> Baseline:
    """What is measured of these rows."""
    base: dict[str, object] = {
        "run": "r",
        "system": "kafka",
        "door": "proxy",
        "gateway": "main",
        "namespace": "default",
        "topic": "orders",
        "operation": "publish",
        "action": "allow",
        "factor": 1.0,
        "delay": 0,
        "policy_version": 1,
        "decisions": 1,
        "window": 0,
    }
    measured = Baseline()
    measured.add(pa.Table.from_pylist([{**base, **row} for row in rows], SCHEMA).select(COLUMNS))
    measured.complete()
    return measured


def one(second: float, messages: int, **changes: object) -> dict[str, object]:
    client = {"principal": "User:anna", "client": "c1"}
    return {"time": at(second), "messages": messages, "bytes": 100 * messages, **client, **changes}


def test_limits_leave_headroom_above_the_usual_load() -> None:
    # In each of 100 seconds 10 messages of 100 bytes, half of them refused; once 15.
    rows = [
        row
        for second in range(100)
        for row in (one(second, 5), one(second + 0.5, 10 if second == 7 else 5, action="reject"))
    ]
    plan = recommended(log(*rows), "a test", head_room=3, apply=False)
    (advice,) = plan.plan.advice
    assert {limit.policy: limit.value for limit in advice.limits} == {
        "max_publish_rate": 30,
        "max_publish_rate_bytes": 3000,
        "max_message_size": 300,
        "max_producers_per_topic": 3,
    }
    assert "p50 10, p95 10, p99 10, peak 15 messages/s; 3 x p99" in advice.limits[0].why
    assert any("User:anna, publish: p99 10 messages/s, peak 15" in remark for remark in advice.remarks)


def test_of_many_principals_only_the_highest_are_collected() -> None:
    rows = [one(0, n, principal=f"User:{n}", topic=topic) for n in range(1, 9) for topic in ("a", "b")]
    plan = recommended(log(*rows), "a test", head_room=1, apply=False)
    table = plan.results.tables()["principals"]
    assert [(row[1], row[2]) for row in table.rows] == [(t, f"User:{n}") for t in "ab" for n in range(4, 9)]


def test_windows_give_rates_but_no_sizes() -> None:
    rows = [
        {"time": at(i / 10), "messages": 4, "bytes": 40, "decisions": 4, "window": 100} for i in range(20)
    ]
    plan = recommended(log(*rows), "a test", head_room=1, apply=False)
    (advice,) = plan.plan.advice
    assert {limit.policy: limit.value for limit in advice.limits} == {
        "max_publish_rate": 40,
        "max_publish_rate_bytes": 400,
    }
    short, windows, blind = plan.plan.notes
    assert "is 2 s long, which is shorter than a day" in short
    assert "recorded in windows only" in windows
    assert "1 topics have no dispatch in this log" in blind


def test_consumers_and_subscriptions_are_counted() -> None:
    clients = [("c1", "s1"), ("c2", "s1"), ("c3", "s2")]
    rows = [
        one(i, 1, operation="dispatch", client=client, subscription=name)
        for i, (client, name) in enumerate(clients)
    ]
    (advice,) = recommended(log(*rows), "a test", head_room=2, apply=False).plan.advice
    values = {limit.policy: limit.value for limit in advice.limits}
    assert values["max_consumers_per_topic"] == 6
    assert values["max_subscriptions_per_topic"] == values["max_consumers_per_subscription"] == 4
    assert values["max_dispatch_rate"] == 2


@pytest.mark.parametrize("apply", [False, True])
def test_the_file_is_accepted_and_observe_only_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apply: bool
) -> None:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka,pulsar,danube")
    hostile = 'a"b:{#\\é'
    rows = [
        one(0, 5),
        one(1, 5, topic=hostile, principal="x\ny: 1\u2028z"),
        one(1, 5, topic="a b"),
        one(2, 5, topic="persistent://public/default/t", system="pulsar", gateway="p"),
        one(3, 5, topic="/default/t", system="danube"),
    ]
    shared = ("shop.{}.in", "persistent://acme/shop/{}", "/shop/{}")
    for name, system in zip(shared, ("kafka", "pulsar", "danube"), strict=True):
        gateway = "p" if system == "pulsar" else "main"
        rows += [one(4, 5, topic=name.format(n), system=system, gateway=gateway) for n in ("x", "y", "z")]
    plan = recommended(log(*rows), "a\ntest", head_room=2, apply=apply)
    text = policy_file(plan.plan)
    path = tmp_path / "policies.yaml"
    path.write_text(text)
    checked = CliRunner().invoke(main, ["check", str(path)])
    assert checked.exit_code == 0, checked.output
    assert "policy settings in 7 places" in checked.output
    assert "# Note: No limits for 'a b' (no policy file can hold its name)." in text
    [left_out] = [
        table for section in plan.results.sections for table in section.tables if table.name == "left_out"
    ]
    assert left_out.rows == (("a b", "no policy file can hold its name"),)
    assert text.count('["127.0.0.1:9092"]') == 1
    assert text.count('["127.0.0.1:6650"]') == 2
    assert "# Note: 9 topics share 3 patterns" in text
    for name in shared:
        assert f'- name: "{name.format("*")}"' in text
    assert text.count("observe_only: true") == (0 if apply else 3)


def test_a_log_without_traffic_is_refused_as_a_baseline() -> None:
    with pytest.raises(RecommendError, match=r"record a baseline first"):
        recommended(log(one(0, 0, operation="connect")), "a test", head_room=2, apply=False)


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.2, 1), (10, 10), (10.1, 11), (100, 100), (101, 110), (1999, 2000), (12_340, 13_000)],
)
def test_numbers_are_rounded_up_to_two_digits(value: float, rounded: int) -> None:
    assert round_up(value) == rounded


def test_a_limit_is_never_below_the_peak() -> None:
    measured = {"p50": 1.0, "p95": 5.0, "p99": 10.0, "peak": 99.0}
    assert limit_of("p", measured, 2, "u") == Limit("p", 99, "p50 1, p95 5, p99 10, peak 99 u; the peak")
    assert limit_of("p", dict.fromkeys(measured, 0.0), 2, "u") is None
