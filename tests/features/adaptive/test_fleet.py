"""A fleet's adaptive targets: found by one worker of what all pass, applied by all, one limit for all."""

import asyncio
import json
import logging
from types import SimpleNamespace

import pytest
from tests.engine.test_bucket import worst_window
from tests.features.adaptive.fleet_lab import FleetLab, Worker
from tests.features.adaptive.test_controller import ACTIVATIONS, ACTIVE, MEMORY, lines

from sluicegate.engine.leased_bucket import LeasedBucket
from sluicegate.model import TopicName


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sluicegate.plugin.adaptive")


def learned(size: int = 2, **traffic: int) -> FleetLab:
    """A fleet that knows the natural rate of `t0`."""
    fleet = FleetLab(size)
    fleet.open("t0")
    fleet.cycle(3, **(traffic or {"w0": 900, "w1": 100}))
    return fleet


def pressed(size: int = 2, **traffic: int) -> FleetLab:
    """A fleet whose leader reads a full backlog, at the lowest rate."""
    fleet = learned(size, **traffic)
    for worker in fleet.workers:
        worker.press(0.95)
    fleet.cycle(5)
    return fleet


def limits(worker: Worker) -> tuple[bool, float, float]:
    limiter = worker.topic().limiter
    return limiter.switch.on, limiter.queue.bucket.messages_per_s, limiter.queue.bucket.bytes_per_s


def test_the_natural_rate_is_that_of_all_and_so_is_the_target() -> None:
    fleet = learned()
    assert [worker.topic().natural.messages_per_s for worker in fleet.workers] == [1000, 1000]
    fleet.workers[0].press(0.95)
    targets = []
    for _ in range(5):
        fleet.cycle()
        assert limits(fleet.workers[0]) == limits(fleet.workers[1])
        targets.append(limits(fleet.workers[1]))
    assert targets == [(True, rate, rate * 100) for rate in (750, 500, 250, 100, 100)]
    assert isinstance(fleet.workers[1].topic().limiter.queue.bucket, LeasedBucket)


def test_all_together_pass_the_target_with_skewed_demand_that_turns() -> None:
    fleet = pressed()
    fleet.offer(3, w0=900, w1=100)
    fleet.admitted.clear()
    before = fleet.offer(5, w0=900, w1=100)
    assert before["w0"] > before["w1"] > 0
    after = fleet.offer(10, w1=1000)  # its client moves, and is held there too
    passed = sum(before.values()) + sum(after.values())
    assert 0.95 * 1500 <= passed <= 1500 + 100
    assert after["w1"] >= 900
    assert worst_window(fleet.admitted, 100) <= 100
    assert [worker.topic().natural.messages_per_s for worker in fleet.workers] == [1000, 1000]


def test_backlogs_are_read_by_the_leader_alone_and_the_fullest_memory_counts() -> None:
    fleet = FleetLab(3, settings=MEMORY)
    fleet.open("t0")
    fleet.cycle(3, w0=1000)
    assert [worker.backlog_readings for worker in fleet.workers] == [3, 0, 0]
    fleet.workers[2].memory = 0.85
    fleet.cycle(3, w0=1000)
    for worker in fleet.workers:
        assert worker.topic().memory_and_backlog == (1, 0)
        assert limits(worker)[:2] == (True, 500)
        assert worker.metrics["pulsar_broker_adaptive_throttle_memory_pressure"] == 1
    known = [worker.metrics.values["sluicegate_pressure_source_known"] for worker in fleet.workers]
    assert known == [{("memory",): 1, ("backlog",): 1}, {("memory",): 1}, {("memory",): 1}]


def test_all_tell_the_same_and_one_logs(caplog: pytest.LogCaptureFixture) -> None:
    fleet = pressed()
    for worker in fleet.workers:
        assert worker.metrics[ACTIVE] == 1
        status = json.loads(worker.context.facts["adaptive.status"])
        assert (status["throttled"], status["topics"]["t0"]["natural_messages_per_s"]) == (1, 1000)
    assert [worker.metrics[ACTIVATIONS] for worker in fleet.workers] == [1, 0]
    fleet.workers[0].press(0)
    fleet.cycle()
    assert [worker.metrics[ACTIVE] for worker in fleet.workers] == [0, 0]
    assert [limits(worker)[0] for worker in fleet.workers] == [False, False]
    assert len(lines(caplog, " ACTIVATED topic=t0 ")) == len(lines(caplog, " DEACTIVATED topic=t0 ")) == 1


def test_a_held_publish_says_at_each_worker_why() -> None:
    fleet = pressed()
    decision = fleet.workers[1].decide()
    assert decision is not None
    assert "Current: 1000 messages/s naturally, Limit: 100 messages/s" in decision.text
    assert "(memory pressure 0.00, backlog pressure 1.00)" in decision.text


def test_another_leader_goes_on_with_what_the_last_one_learned() -> None:
    fleet = pressed(3)
    fleet.kill(fleet.workers[0])
    fleet.cycle(2)
    for worker in fleet.workers:
        assert worker.topic().natural.messages_per_s == 1000
        assert limits(worker) == (True, 100, 10_000)
    fleet.workers[0].press(0.825)  # half of the pressure
    fleet.cycle(2)
    assert [limits(worker)[1] for worker in fleet.workers] == [550, 550]


def test_a_worker_that_starts_under_pressure_enforces_the_target_for_its_first_message() -> None:
    fleet = pressed()
    worker = fleet.start()
    fleet.turn()
    worker.open("t0")
    assert limits(worker) == (True, 100, 10_000)
    assert worker.decide() is not None
    fleet.cycle(3)
    assert worker.topic().natural.messages_per_s == 1000


def test_topics_that_the_leader_does_not_have_are_evaluated_too(caplog: pytest.LogCaptureFixture) -> None:
    fleet = FleetLab(2)
    fleet.workers[1].open("t0")
    fleet.cycle(3, w1=1000)
    fleet.workers[0].press(0.95)
    fleet.cycle(4)
    assert limits(fleet.workers[1]) == (True, 100, 10_000)
    assert fleet.workers[0].controller.topics == ()
    assert fleet.workers[0].metrics[ACTIVE] == 1
    assert len(lines(caplog, " ACTIVATED topic=t0 ")) == 1
    fleet.workers[0].open("t0")  # a client comes
    assert limits(fleet.workers[0]) == (True, 100, 10_000)
    fleet.workers[0].press(0)
    fleet.cycle()
    assert [limits(worker)[0] for worker in fleet.workers] == [False, False]


def test_a_backlog_is_found_by_any_name_of_a_topic_that_the_leader_does_not_have() -> None:
    fleet = FleetLab(2)
    leader, other = fleet.workers
    driver = SimpleNamespace(name_of=lambda topic, config: TopicName(topic, "", ("t",)))
    leader.context.driver = driver  # type: ignore[assignment]
    other.open("t-partition-0")
    fleet.cycle(3, w1=1000)
    leader.press(0.95, "t")
    fleet.cycle(4)
    assert other.topic("t-partition-0").limiter.queue.bucket.messages_per_s == 100


def test_a_worker_forgets_a_topic_that_leaves_it_and_enforces_its_target_if_it_comes_back() -> None:
    fleet = pressed()
    worker = fleet.workers[1]
    del worker.context.states["t0"]
    fleet.cycle()
    assert worker.controller.topics == ()
    worker.open("t0")
    assert limits(worker) == (True, 100, 10_000)


def test_a_topic_that_leaves_the_leader_stays_throttled_elsewhere() -> None:
    fleet = pressed()
    del fleet.workers[0].context.states["t0"]
    fleet.cycle(2)
    assert fleet.workers[0].controller.topics == ()
    assert limits(fleet.workers[1]) == (True, 100, 10_000)


def test_a_topic_without_any_traffic_is_forgotten_by_who_does_not_have_it() -> None:
    fleet = FleetLab(2)
    fleet.workers[1].open("t0")
    fleet.cycle(3, w1=1)
    assert fleet.workers[0].controller.fleet.standing.topics.keys() == {"t0"}
    fleet.cycle(150)
    assert fleet.workers[0].controller.fleet.standing.topics == {}
    assert fleet.workers[0].controller.fleet.begin((), ()) == ()


def test_while_the_store_is_away_limits_stay_and_nothing_is_learned_of_one_part() -> None:
    fleet = pressed()
    fleet.is_away = True
    fleet.cycle(3, w0=10, w1=90)
    for worker in fleet.workers:
        assert limits(worker) == (True, 100, 10_000)
    fleet.workers[1].press(0)  # what it reads itself
    fleet.cycle(3, w0=10, w1=5000)
    assert [limits(worker)[0] for worker in fleet.workers] == [True, False]
    assert [worker.topic().natural.messages_per_s for worker in fleet.workers] == [1000, 1000]
    assert [worker.backlog_readings for worker in fleet.workers] == [14, 6]
    fleet.is_away = False
    fleet.cycle()
    assert [limits(worker) for worker in fleet.workers] == [(True, 100, 10_000)] * 2


def test_without_the_store_each_spends_its_share_of_the_target() -> None:
    fleet = pressed()
    fleet.offer(4, w0=500, w1=500)
    fleet.is_away = True
    for worker in fleet.workers:
        worker.network.failing = "request"
    fleet.offer(1, w0=500, w1=500)
    passed = fleet.offer(4, w0=500, w1=500)
    assert all(190 <= each <= 210 for each in passed.values())


def test_what_cannot_be_read_changes_nothing() -> None:
    fleet = pressed()
    worker = fleet.workers[1]
    for findings in ("", "null", "[]", "{", '{"version":2}', "[" * 100_000, '{"version":1,"topics":3}'):
        with pytest.raises(ValueError, match=r"."):
            worker.shared.take(findings, 0.0)
    assert limits(worker) == (True, 100, 10_000)


def test_the_leaders_settings_hold_for_all() -> None:
    fleet = learned()
    leader, other = fleet.workers
    leader.set(min_rate_factor=0.5)
    leader.press(0.95)
    fleet.cycle(3)
    assert limits(other) == (True, 500, 50_000)
    leader.set(observe_only=True)
    fleet.cycle()
    assert [limits(worker)[0] for worker in fleet.workers] == [False, False]
    for worker in fleet.workers:
        assert worker.metrics["sluicegate_adaptive_throttle_observe_only"] == 1
        assert worker.metrics["sluicegate_adaptive_throttle_would_throttle"] == 1


def test_what_passed_while_it_was_throttled_anywhere_is_not_learned() -> None:
    fleet = pressed()
    fleet.workers[0].press(0)
    fleet.cycle(2, w0=50, w1=50)  # the interval that ends with the release, and the one in which all release
    assert fleet.workers[0].topic().natural.messages_per_s == 1000
    fleet.cycle(1, w0=900, w1=100)
    assert fleet.workers[0].topic().natural.messages_per_s == 1000
    fleet.cycle(1, w0=1900, w1=100)
    assert fleet.workers[0].topic().natural.messages_per_s == pytest.approx(1300)


def test_nothing_is_learned_before_all_have_measured() -> None:
    """Under pressure the first rate is kept, so a part of the fleet's would be too little for long."""
    fleet = learned(2)
    fleet.start().open("t0")
    fleet.cycle(1, w0=900, w1=100)
    fleet.cycle(1, w0=500, w1=100, w2=400)  # the leader has yet to hear what the third one passes
    assert fleet.workers[0].topic().natural.messages_per_s == 1000
    fleet.cycle(2, w0=500, w1=100, w2=400)
    assert fleet.workers[0].topic().natural.messages_per_s == 1000


def test_clients_of_a_dead_worker_are_counted_twice_for_one_interval_at_most() -> None:
    fleet = learned()
    fleet.kill(fleet.workers[1])
    fleet.cycle(1, w0=900)  # what the dead one told last still counts
    rates = []
    for _ in range(3):
        fleet.cycle(1, w0=1000)
        rates.append(fleet.workers[0].topic().natural.messages_per_s)
    assert rates == [pytest.approx(1030), pytest.approx(1028.5), pytest.approx(1027.075)]


def test_a_worker_of_another_version_is_left_out_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    fleet = learned()
    leader = fleet.workers[0]
    for _ in range(3):
        leader.shared.hear({"old": '{"version":0}'})
        asyncio.run(leader.tasks[0].run())  # type: ignore[arg-type]
    [line] = lines(caplog, "left out")
    assert "worker old is left out: expected adaptive throttling of version 1" in line
