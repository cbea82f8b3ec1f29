"""The snapshots of a broker's workers become one, as the tables say."""

from typing import Any

import pytest
from tests.gateway.lab import on_uvloop, upstream
from tests.gateway.test_embedded import Client, config, gateway
from tests.metrics.test_exposition import exposed

from sluicegate.metrics import exposition
from sluicegate.processes import merging
from sluicegate.processes.merging import merged, what_it_counted
from sluicegate.runtime.plugins import CHOICE


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


def use(used: float, limit: float = 100.0) -> dict[str, Any]:
    return {
        "limit": limit,
        "in_force": limit,
        "level": "topic",
        "source": "file",
        "used_1s": used,
        "used_10s": used,
    }


def topic(**parts: Any) -> dict[str, Any]:
    return {
        "counters": [1, 2],
        "sizes": [1, 0],
        "batches": [0, 1],
        "holds": {},
        "violations": [],
        "producers": 1,
        "consumers": {},
        "use": {},
        "utilization": {},
        "held": 0,
        "namespace": "default",
        "named": {},
        **parts,
    }


def snapshot(**parts: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {
        **{part: {} for part in merging.PARTS},
        **{part: [] for part in ("tls", "plugin_calls", "held", "rollouts", "plugin_metrics")},
        "reachability": {"up": True, "since_ms": 1, "reason": "", "notes": []},
        "log_lines_left_out": 0,
    }
    return {**empty, "broker": "b1", "system": "echo", **parts}


def both(one: dict[str, Any], other: dict[str, Any]) -> Any:
    (found,) = merged([snapshot(**one), snapshot(**other)])
    return found


def test_every_part_of_a_worker_has_a_rule() -> None:
    assert set(merging.GAUGES) == set(exposition.GAUGES)

    @on_uvloop
    async def parts() -> None:
        async with upstream() as port, gateway(config(port)) as served:
            client = await Client.to(served)
            await client.say("publish orders 5")
            (found,) = served.snapshot()
            assert found.keys() == merging.PARTS - {"budgets", "log_lines_left_out"}
            assert found["gauges"].keys() == merging.GAUGES.keys()
            client.close()

    parts()


def test_one_worker_alone_stays_as_it_is() -> None:
    alone, other = snapshot(), snapshot(broker="b2")
    found = merged([alone, other])
    assert found[0] is alone
    assert found[1] is other


def test_counters_are_added_and_gauges_go_by_their_table() -> None:
    gauges = dict.fromkeys(merging.GAUGES, 3.0)
    found = both(
        {"counters": {"a": 1, "b": 2}, "gauges": gauges, "loop_holds": {"m": [1, 0.5]}},
        {"counters": {"b": 3, "c": 4}, "gauges": {**gauges, "topics": 5.0}, "loop_holds": {"m": [2, 1.5]}},
    )
    assert found["counters"] == {"a": 1, "b": 5, "c": 4}
    assert found["gauges"]["connections"] == 6
    assert found["gauges"]["topics"] == 5
    assert found["gauges"]["overload_memory_limit_bytes"] == 3
    assert found["loop_holds"] == {"m": [3, 2.0]}


def test_topics_add_up_and_their_utilisation_is_that_of_the_sum() -> None:
    one = topic(
        holds={"publish": [1, 0, 10]},
        violations=[["size", "reject", "too large", 2]],
        consumers={"s": 1},
        use={"max_publish_rate": use(30), "max_subscriptions_per_topic": use(4)},
    )
    other = topic(
        holds={"publish": [1, 1, 5]},
        violations=[["size", "reject", "too large", 1], ["size", "would_reject", "too large", 1]],
        consumers={"s": 2, "t": 1},
        use={"max_publish_rate": use(20, 90.0), "max_subscriptions_per_topic": use(5)},
    )
    found = both({"topics": {"t": one, "only": topic()}}, {"topics": {"t": other}})["topics"]
    assert found["only"] == topic()
    merged_topic = found["t"]
    assert merged_topic["counters"] == [2, 4]
    assert merged_topic["holds"] == {"publish": [2, 1, 15]}
    assert merged_topic["violations"] == [
        ["size", "reject", "too large", 3],
        ["size", "would_reject", "too large", 1],
    ]
    assert merged_topic["consumers"] == {"s": 3, "t": 1}
    assert merged_topic["use"]["max_publish_rate"] == {**use(50), "limit": 90.0, "in_force": 90.0}
    assert merged_topic["use"]["max_subscriptions_per_topic"]["used_1s"] == 5
    assert merged_topic["utilization"]["publish"] == {"1s": 55.556, "10s": 55.556}


@pytest.mark.parametrize(("source", "limit"), [("file", 100.0), ("default", 200.0)])
def test_connections_are_limited_together_if_the_entry_says_so(source: str, limit: float) -> None:
    one, other = ({"max_connections": {**use(used), "source": source}} for used in (3, 4))
    found = both({"use": one}, {"use": other})["use"]
    assert found["max_connections"] == {**use(7, limit), "source": source}


def test_rows_are_one_by_what_identifies_them() -> None:
    calls = {"plugin": "p", "call": "c", "sampled": 1, "sampled_ns": 10, "longest_ns": 10}
    rule = {
        "policy": "p",
        "level": "topic",
        "name": "t",
        "broker": "",
        "mode": "observe",
        "asked": 1,
        "would": 1,
        "did": 0,
    }
    section = {"section": "tls.client", "successful": True, "renewals": 2, "not_after": [["cert", "/c", 1]]}
    found = both(
        {"plugin_calls": [calls], "rollouts": [rule], "tls": [section], "held": [{"since_ms": 2}]},
        {
            "plugin_calls": [{**calls, "longest_ns": 30}],
            "rollouts": [rule, {**rule, "mode": "enforce"}],
            "tls": [{**section, "successful": False}],
            "held": [{"since_ms": 1}],
        },
    )
    assert found["plugin_calls"] == [{**calls, "sampled": 2, "sampled_ns": 20, "longest_ns": 30}]
    assert [(row["mode"], row["asked"]) for row in found["rollouts"]] == [("observe", 2), ("enforce", 1)]
    assert found["tls"] == [{**section, "successful": False}]
    assert found["held"] == [{"since_ms": 1}, {"since_ms": 2}]


def test_counters_of_plugins_are_added_and_of_their_gauges_the_largest_stands() -> None:
    def metric(kind: str, *values: tuple[str, float]) -> dict[str, Any]:
        rows = [[[label], value] for label, value in values]
        return {"kind": kind, "name": f"n_{kind}", "help": "", "labels": ["x"], "values": rows}

    found = both(
        {"plugin_metrics": [metric("counter", ("a", 1)), metric("gauge", ("a", 1))]},
        {"plugin_metrics": [metric("counter", ("a", 2), ("b", 1)), metric("gauge", ("a", 2))]},
    )
    assert found["plugin_metrics"] == [metric("counter", ("a", 3), ("b", 1)), metric("gauge", ("a", 2))]


def test_a_broker_is_up_if_one_worker_reaches_it() -> None:
    down = {"up": False, "since_ms": 5, "reason": "no answer", "notes": ["x"]}
    up = {"up": True, "since_ms": 1, "reason": "", "notes": ["x", "y"]}
    for one, other in ((down, up), (up, down)):
        found = both({"reachability": one}, {"reachability": other})["reachability"]
        assert found["up"]
        assert found["since_ms"] == 1
        assert sorted(found["notes"]) == ["x", "y"]


def test_totals_of_processes_that_ended_stay() -> None:
    client = {"published_messages": 3, "held": 1}
    ended = snapshot(
        counters={"a": 1},
        gauges={"connections": 9},
        topics={"t": topic()},
        clients={"c": client},
        decision_log={"queued": 4, "decided": 6},
    )
    kept = what_it_counted(ended, what_it_counted(ended))
    (found,) = merged([ended, kept])
    assert found["counters"] == {"a": 3}
    assert found["gauges"] == {"connections": 9}
    assert found["decision_log"] == {"queued": 4, "decided": 18}
    assert found["topics"]["t"]["counters"] == [3, 6]
    assert found["topics"]["t"]["producers"] == 1
    assert found["clients"]["c"] == {"published_messages": 9, "held": 1}


def test_names_that_are_kept_of_ended_processes_are_bounded() -> None:
    first = snapshot(topics={f"old-{each}": topic() for each in range(800)})
    second = snapshot(topics={f"new-{each}": topic() for each in range(800)})
    kept = what_it_counted(second, what_it_counted(first))["topics"]
    assert len(kept) == 1_000
    assert "new-0" in kept
    assert "old-0" not in kept


@on_uvloop
async def test_what_workers_tell_together_can_be_exposed() -> None:
    async with upstream() as port, gateway(config(port)) as served:
        client = await Client.to(served)
        await client.say("publish orders 5")
        one = {**served.snapshot()[0], "log_lines_left_out": 0}
        client.close()
    (found,) = merged([one, one])
    twice, once = exposed(dict(found)), exposed(one)
    assert twice.keys() == once.keys()
    lines = "sluicegate_broker_events_total{event=lines}"
    assert twice[lines] == 2 * once[lines]
