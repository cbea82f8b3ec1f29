"""Whole runs on stand-ins for the brokers: real clients, real gates, a few seconds each."""

import socket
from collections import Counter
from datetime import timedelta

import pytest
from tests.reports.runner.conftest import Record

from sluicegate_reports.results import REFERENCE_LABEL
from sluicegate_reports.runner.names import scenario_name

pytestmark = pytest.mark.timeout(120)

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
drain: 1s
policies:
  topics:
    - { name: limited, max_publish_rate: 50/s, on_limit: { max_publish_rate: delay } }
    - { name: counted, max_producers_per_topic: 1 }
    - { name: sized, max_message_size: 500B }
"""
ARMS = [("kafka", "proxy"), ("pulsar", "proxy"), ("danube", "proxy"), ("danube", "interceptor")]


@pytest.mark.parametrize(("system", "door"), ARMS)
async def test_what_clients_see_is_what_the_gate_decides(system: str, door: str, record: Record) -> None:
    made = await record(SCENARIO, (system,), (door,))
    [arm] = made.run.facts.arms
    assert (arm.system, arm.door, arm.missing) == (system, door, "")
    events = Counter(
        (scenario_name(row["topic"]), row["role"], row["event"]) for row in made.observations(door=door)
    )
    # 50 a second and a burst of 50 in 2 s, and the drain of 1 s for what still waits.
    admitted = events["limited", "producer", "acknowledged"]
    assert 100 <= admitted <= 200
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


async def test_deliveries_carry_their_producer_and_their_phase(record: Record) -> None:
    made = await record(SCENARIO, ("pulsar",), ("proxy",))
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
    assert {row["scenario"] for row in sent.values()} == {"first", "second"}
    numbers = sorted(number for _, number in sent)
    assert numbers == list(range(len(numbers)))


async def test_the_facts_say_what_was_tried_and_when(record: Record) -> None:
    made = await record(SCENARIO, ("danube",), ("interceptor", "native"))
    facts = made.run.facts
    assert [(arm.system, arm.door, arm.label) for arm in facts.arms] == [
        ("danube", "interceptor", REFERENCE_LABEL),
        ("danube", "native", REFERENCE_LABEL),
    ]
    assert "no registry serves the real Danube" in facts.arms[1].missing
    assert facts.scenario == SCENARIO
    assert "*limited--*" in facts.policies
    assert [phase.name for phase in facts.phases] == [
        "first (danube interceptor)",
        "second (danube interceptor)",
    ]
    assert facts.phases[0].end - facts.phases[0].start == timedelta(seconds=1)
    [skew] = facts.skews
    # One machine has one clock.
    assert abs(skew.offset_us) <= skew.uncertainty_us + 1000
    assert {"sluicegate", "python", "danube-client"} <= set(facts.versions)
    assert {"cpu", "cores", "memory"} <= set(facts.machine)
    played = [trial for trial in made.run.trials if not trial.missing]
    assert {trial.door for trial in played} == {"interceptor"}
    assert {trial.policy for trial in played} == {
        "max_publish_rate",
        "max_producers_per_topic",
        "max_message_size",
    }
    assert all("no registry" in trial.missing for trial in made.run.trials if trial.door == "native")


async def test_a_system_that_cannot_be_reached_is_told_and_the_others_are_played(record: Record) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    made = await record(SCENARIO, ("kafka", "danube"), ("proxy",), kafka=(f"127.0.0.1:{port}",))
    arms = {arm.system: arm for arm in made.run.facts.arms}
    assert arms["kafka"].missing == f"cannot be reached: 127.0.0.1:{port}: Connection refused"
    assert arms["danube"].missing == ""
    assert f"end kafka proxy: {arms['kafka'].missing}" in made.said
    assert {trial.missing for trial in made.run.trials if trial.system == "kafka"} == {arms["kafka"].missing}
    assert {row["system"] for row in made.observations()} == {"danube"}


async def test_a_door_that_a_system_has_not_is_told(record: Record) -> None:
    made = await record(SCENARIO, ("kafka",), ("interceptor",))
    assert "no gRPC service" in made.run.facts.arms[0].missing


async def test_stand_ins_are_not_judged_natively(record: Record) -> None:
    made = await record(SCENARIO, ("kafka", "pulsar"), ("native",))
    assert {arm.system for arm in made.run.facts.arms} == {"kafka", "kafka-strimzi", "pulsar"}
    for arm in made.run.facts.arms:
        assert "no policies of its own" in arm.missing or "takes no quota plug-in" in arm.missing
