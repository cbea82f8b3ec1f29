"""Whole runs on reference brokers: real clients, real gates, a few seconds each."""

import socket
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from tests.reports.registry.river import install
from tests.reports.runner.conftest import Record, Recorded
from tests.reports.runner.topics import scenario_name

from sluicegate_danube.reference import ReferenceBroker
from sluicegate_reports import registry
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.registry.arms import REFERENCE_LABEL
from sluicegate_reports.verdicts import judge

pytestmark = pytest.mark.slow

SCENARIO = """\
name: small
title: A little of everything.
topics: [{ name: limited }, { name: counted }, { name: sized }]
producers:
  - { name: fast, topic: limited, rate: 200/s, size: 100B, in_flight: 20 }
  - { name: place, topic: counted, count: 2, rate: 5/s }
  - { name: large, topic: sized, rate: 5/s, size: 600B }
consumers:
  - { name: reader, topic: limited }
phases: [{ name: first, duration: 1s }, { name: second, duration: 1s }]
drain: 500ms
policies:
  topics:
    - { name: limited, max_publish_rate: 50/s, on_limit: { max_publish_rate: delay } }
    - { name: counted, max_producers_per_topic: 1 }
    - { name: sized, max_message_size: 500B }
"""
WRAPPER = """
from contextlib import asynccontextmanager

from sluicegate_reports.registry import Extension
from sluicegate_reports.runner.doors import Arm, Way


@asynccontextmanager
async def wrapped(setting):
    assert setting.resolve(setting.topics["limited"]).number("max_publish_rate") == 50
    yield Way((), client="tests.reports.runner.fakes:Driver")


WRAPPER = Arm("pulsar", "client", "pulsar", wrapped, label="a wrapper")
REPORTS = Extension(arms=("wrapper:WRAPPER",))
"""
"""A package that brings a door whose clients are its own."""
DANUBE_DOORS = ("interceptor", "proxy")


def check_that_clients_saw_what_was_decided(made: Recorded, system: str, door: str) -> None:
    rows = made.observations(system=system, door=door)
    events = Counter((scenario_name(row["topic"]), row["role"], row["event"]) for row in rows)
    admitted = events["limited", "producer", "acknowledged"]
    times = [row["time"] for row in rows if scenario_name(row["topic"]) == "limited"]
    # A burst of 50, then 50 a second for as long as the machine took.
    assert 0 < admitted <= 50 + 50 * (max(times) - min(times)).total_seconds() + 1
    assert admitted + events["limited", "producer", "failed"] == events["limited", "producer", "sent"]
    assert events["counted", "producer", "attached"] == 1
    assert events["counted", "producer", "attach_refused"] == 1
    assert events["sized", "producer", "acknowledged"] == 0
    assert events["sized", "producer", "sent"] >= 1
    decided = made.decisions(door=door, system=system, run=made.run.facts.run)
    allowed = sum(
        row["messages"]
        for row in decided
        if row["operation"] == "publish" and row["action"] == "allow" and "limited" in row["topic"]
    )
    # What is held when the clients leave is neither told them nor, on some systems, undone.
    assert admitted <= allowed <= admitted + 20
    assert {row["action"] for row in decided if "counted" in row["topic"]} == {"allow", "reject"}


def check_that_deliveries_carry_their_origin(made: Recorded) -> None:
    sent = {
        (row["client"], row["sequence"]): row
        for row in made.observations(event="sent")
        if row["client"] == "fast"
    }
    received = made.observations(event="received")
    assert received
    for row in received:
        origin = sent[row["producer"], row["sequence"]]
        assert row["published"] == origin["time"]
        assert row["scenario"] == origin["scenario"]
        assert row["time"] >= origin["time"]
        assert row["bytes"] == origin["bytes"] == 100
    assert {row["scenario"] for row in sent.values()} <= {"first", "second"}
    numbers = sorted(number for _, number in sent)
    assert numbers == list(range(len(numbers)))


async def check_a_run_through_the_gate(record: Record, system: str) -> Recorded:
    made: Recorded = await record(SCENARIO, (system,), ("proxy",))
    [arm] = made.run.facts.arms
    assert (arm.system, arm.door, arm.missing) == (system, "proxy", "")
    check_that_clients_saw_what_was_decided(made, system, "proxy")
    check_that_deliveries_carry_their_origin(made)
    return made


async def test_clients_of_pulsar_see_what_the_gate_decides(record: Record) -> None:
    await check_a_run_through_the_gate(record, "pulsar")


async def test_an_unreachable_system_is_reported_and_the_others_run(record: Record) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    doors = ("interceptor", "proxy", "native")
    made = await record(SCENARIO, ("kafka", "danube"), doors, kafka=(f"127.0.0.1:{port}",))
    facts = made.run.facts
    missing = {(arm.system, arm.door): arm.missing for arm in facts.arms}
    unreachable = f"cannot be reached: 127.0.0.1:{port}: Connection refused"
    assert missing["kafka", "proxy"] == missing["kafka", "native"] == unreachable
    assert f"end kafka proxy: {unreachable}" in made.said
    assert "no registry serves the real Danube" in missing["danube", "native"]
    assert missing["danube", "proxy"] == missing["danube", "interceptor"] == ""
    assert {arm.label for arm in facts.arms if arm.system == "danube"} == {REFERENCE_LABEL}
    tried = {(trial.system, trial.door, trial.missing) for trial in made.run.trials}
    assert tried == {(*arm, why) for arm, why in missing.items()}
    for door in ("proxy", "interceptor"):
        check_that_clients_saw_what_was_decided(made, "danube", door)
    check_the_facts(made)


def check_the_facts(made: Recorded) -> None:
    facts = made.run.facts
    assert facts.scenario == SCENARIO
    assert "*limited--*" in facts.policies
    names = [phase.name for phase in facts.phases]
    assert sorted(names) == [
        f"{name} (danube {door})" for name in ("first", "second") for door in DANUBE_DOORS
    ]
    assert facts.phases[0].end - facts.phases[0].start == timedelta(seconds=1)
    for skew in facts.skews:
        # One machine has one clock.
        assert abs(skew.offset_us) <= skew.uncertainty_us + 1000
    assert len(facts.skews) == 2
    assert {"sluicegate", "python", "danube-client"} <= set(facts.versions)
    assert {"cpu", "cores", "memory"} <= set(facts.machine)
    assert {trial.policy for trial in made.run.trials} == {
        "max_publish_rate",
        "max_producers_per_topic",
        "max_message_size",
    }


async def test_what_messages_cost_without_any_policy_is_played_and_not_judged(record: Record) -> None:
    made = await record(SCENARIO, ("danube",), ("direct",))
    facts = made.run.facts
    assert (facts.arms, facts.phases, made.run.trials) == ((), (), ())
    assert {(each.system, each.phase) for each in facts.baselines} == {("danube", "first")}
    policies = {scenario_name(each.topic): each.policies for each in facts.baselines}
    assert policies["limited"] == ("max_publish_rate",)
    rows = made.observations(system="danube", door="direct", role="producer", event="acknowledged")
    assert {each.topic for each in facts.baselines} <= {row["topic"] for row in rows}
    assert made.observations(event="attach_refused") == []
    assert all(each.end - each.start == timedelta(seconds=1) for each in facts.baselines)


async def test_a_running_broker_is_used_by_its_address(record: Record) -> None:
    async with ReferenceBroker() as broker:
        made = await record(SCENARIO, ("danube",), ("proxy",), danube=tuple(broker.addresses))
        [arm] = made.run.facts.arms
        assert (arm.label, arm.missing) == ("", "")
        check_that_clients_saw_what_was_decided(made, "danube", "proxy")
        assert made.run.facts.versions["danube"] == f"at {broker.addresses[0]}"


async def test_a_door_that_a_system_lacks_is_reported(record: Record) -> None:
    made = await record(SCENARIO, ("kafka",), ("interceptor",))
    assert "no gRPC service" in made.run.facts.arms[0].missing


async def test_brokers_without_policies_of_their_own_are_reported_as_missing(record: Record) -> None:
    made = await record(SCENARIO, ("kafka", "pulsar"), ("native",))
    assert {arm.system for arm in made.run.facts.arms} == {"kafka", "kafka-strimzi", "pulsar"}
    for arm in made.run.facts.arms:
        assert "no policies of its own" in arm.missing or "takes no quota plug-in" in arm.missing
    # What a system has no policy for is not missing.
    verdicts = {(trial.system, trial.policy): judge(trial, {}).verdict for trial in made.run.trials}
    limits = ("max_publish_rate", "max_producers_per_topic", "max_message_size")
    assert {verdicts["kafka-strimzi", limit] for limit in limits} == {Verdict.NOT_APPLICABLE}
    assert [verdicts["kafka", limit] for limit in limits] == [
        Verdict.NOT_APPLICABLE,
        Verdict.NOT_APPLICABLE,
        Verdict.NOT_PLAYED,
    ]
    assert {verdicts["pulsar", limit] for limit in limits} == {Verdict.NOT_PLAYED}


async def test_an_additional_door_can_drive_its_own_clients(
    record: Record, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    package = tmp_path / "package"
    package.mkdir()
    with monkeypatch.context() as installed:
        install(package, WRAPPER, installed, module="wrapper")
        made = await record(SCENARIO, ("pulsar",), ("client",))
    registry.forget()
    [arm] = made.run.facts.arms
    assert (arm.door, arm.label, arm.missing) == ("client", "a wrapper", "")
    assert {row["topic"].partition("--client")[0] for row in made.observations(event="sent")} == {
        "persistent://public/default/counted",
        "persistent://public/default/limited",
        "persistent://public/default/sized",
    }
