"""The controller's cycle over fake brokers: what it activates, holds, releases and says."""

import json
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.features.adaptive.lab import Lab

from sluicegate.engine.pressure import Backlog
from sluicegate.engine.state import TopicState
from sluicegate.features.adaptive.formulas import floor_rate
from sluicegate.features.adaptive.settings import MEMORY_HIGH, MEMORY_LOW
from sluicegate.model import Outcome, TopicName

MEMORY = {MEMORY_LOW: 0.70, MEMORY_HIGH: 0.85}
ACTIVE = "pulsar_broker_adaptive_throttle_active_topic_count"
ACTIVATIONS = "pulsar_broker_adaptive_throttle_activation_count_total"
FAILURES = "pulsar_broker_adaptive_throttle_controller_evaluation_failure_count_total"


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sluicegate.plugin.adaptive")


def lines(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    return [text for text in caplog.messages if what in text]


def rates(lab: Lab, cycles: int, name: str = "t0") -> list[int]:
    found = []
    for _ in range(cycles):
        lab.cycle()
        found.append(lab.topic(name).messages_per_s)
    return found


@pytest.mark.seed("S5-030", "S5-038", "S5-082")
def test_full_pressure_reaches_the_floor_in_four_cycles_and_stays() -> None:
    lab = Lab()
    lab.learn(1000)
    lab.press(0.95)
    assert rates(lab, 7) == [750, 500, 250, 100, 100, 100, 100]
    assert lab.topic().limiter.queue.bucket.messages_per_s == 100


@pytest.mark.seed("S5-028")
def test_messages_and_bytes_are_computed_apart() -> None:
    lab = Lab()
    lab.learn(1000, nbytes=37)
    lab.press(0.95)
    lab.cycle()
    bucket = lab.topic().limiter.queue.bucket
    assert (bucket.messages_per_s, bucket.bytes_per_s) == (750, 37_000 - 9_250)


@pytest.mark.seed("S5-027", "S5-028")
def test_messages_without_bytes_leave_the_bytes_unlimited() -> None:
    lab = Lab()
    lab.learn(1000, nbytes=0)
    lab.press(0.95)
    lab.cycle()
    bucket = lab.topic().limiter.queue.bucket
    assert (bucket.messages_per_s, bucket.bytes_per_s) == (750, 0)


@pytest.mark.seed("S5-023", "S5-031")
@pytest.mark.parametrize(
    ("memory", "backlog", "active"),
    [(0, 0.95, True), (0.95, 0, True), (0.71, 0.76, True), (0.70, 0.75, False), (0, 0, False)],
)
def test_either_signal_activates(memory: float, backlog: float, active: bool) -> None:
    lab = Lab(settings=MEMORY)
    lab.learn()
    lab.memory = memory
    lab.press(backlog)
    lab.cycle()
    assert lab.topic().active is active
    assert lab.topic().limiter.switch.on is active


@pytest.mark.seed("S5-031", "S5-032", "S5-082", "S5-087")
def test_hysteresis_of_a_backlog() -> None:
    lab = Lab()
    lab.learn()
    seen = []
    for share in (0.95, 0.80, 0.76, 0.70):
        lab.press(share)
        lab.cycle()
        seen.append(lab.topic().limiter.switch.on)
    assert seen == [True, True, True, False]


@pytest.mark.seed("S5-031", "S5-093")
def test_release_takes_both_signals() -> None:
    lab = Lab(settings=MEMORY)
    lab.learn()
    lab.memory = 0.95
    lab.press(0.95)
    lab.cycle()
    lab.press(0.0)
    lab.cycle()
    assert lab.topic().limiter.switch.on
    lab.memory = 0.0
    lab.press(0.95)
    lab.cycle()
    assert lab.topic().limiter.switch.on
    lab.press(0.0)
    lab.cycle()
    assert not lab.topic().limiter.switch.on


@pytest.mark.seed("S5-039", "S5-082")
def test_release_is_immediate_unless_a_ramp_is_configured() -> None:
    for release, expected in (("immediate", [0, 0]), ("ramp", [350, 600, 850, 0, 0])):
        lab = Lab(settings={"adaptive_publish_throttling_release": release})
        lab.learn(1000)
        lab.press(1.0)
        lab.cycle(times=4)
        lab.press(0.0)
        assert rates(lab, len(expected)) == expected
        assert not lab.topic().limiter.switch.on


@pytest.mark.seed("S5-033", "S5-082")
def test_without_a_natural_rate_nothing_is_activated() -> None:
    lab = Lab()
    lab.press(0.95)
    lab.cycle()
    assert lab.publish(50) == 50
    lab.cycle(seconds=0.0)  # no time passed: still nothing is known
    lab.cycle()
    assert lab.topic().natural.messages_per_s == 50
    assert not lab.topic().active  # the cycle that learned it
    lab.cycle()
    assert lab.topic().active


@pytest.mark.seed("S5-029", "S5-038")
def test_the_reduced_rate_is_not_learned() -> None:
    lab = Lab()
    lab.learn(1000)
    lab.press(0.95)
    for _ in range(20):
        lab.publish(100)
        lab.cycle()
    assert lab.topic().natural.messages_per_s == 1000
    assert lab.topic().messages_per_s == 100


@pytest.mark.seed("S5-040", "S5-080", "S5-082")
def test_observe_only_computes_and_logs_and_never_throttles(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(settings={"adaptive_publish_throttling_observe_only": True})
    lab.learn(1000)
    lab.press(0.95)
    for _ in range(10):
        lab.cycle()
        assert lab.publish(100) == 100
    assert lab.sink.decisions == []
    assert len(lab.sink.allows) == 1000
    assert lab.context.applied == 0
    assert lab.metrics[ACTIVE] == 0
    assert lab.metrics[ACTIVATIONS] == 0
    assert lab.metrics["sluicegate_adaptive_throttle_would_throttle"] == 1
    assert lab.metrics["sluicegate_adaptive_throttle_observe_only"] == 1
    assert len(lines(caplog, "[AdaptiveThrottle] OBSERVE-ONLY would-activate topic=t0 ")) == 1
    assert lines(caplog, " ACTIVATED") == []
    lab.press(0.0)
    lab.cycle()
    assert len(lines(caplog, "[AdaptiveThrottle] OBSERVE-ONLY would-deactivate topic=t0 ")) == 1
    assert lab.metrics["sluicegate_adaptive_throttle_would_throttle"] == 0


@pytest.mark.seed("S5-041")
def test_from_observing_to_live_in_the_next_cycle() -> None:
    lab = Lab(settings={"adaptive_publish_throttling_observe_only": True})
    lab.learn(1000)
    lab.press(0.95)
    lab.cycle(times=5)
    lab.set(observe_only=False)
    assert rates(lab, 2) == [750, 500]  # from the natural rate: until now nothing was reduced
    assert lab.topic().limiter.switch.on
    assert lab.metrics[ACTIVATIONS] == 1
    assert lab.metrics["sluicegate_adaptive_throttle_would_throttle"] == 0


@pytest.mark.seed("S5-002", "S5-042", "S5-043")
@pytest.mark.parametrize("whole_gate", [False, True])
def test_from_live_to_observing_releases_at_once(whole_gate: bool, caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(topics=3)
    lab.learn(1000)
    for name in lab.gates:
        lab.press(0.95, name)
    lab.cycle(times=4)
    assert lab.publish(1000) < 1000
    if whole_gate:
        lab.context.observe_only = True
    else:
        lab.set(observe_only=True)
    lab.cycle()
    assert not any(topic.limiter.switch.on for topic in lab.controller.topics)
    assert lab.publish(1000) == 1000
    assert lab.metrics[ACTIVE] == 0
    assert lab.metrics["sluicegate_adaptive_throttle_would_throttle"] == 3
    assert len(lines(caplog, "DEACTIVATED")) == 3


@pytest.mark.seed("S5-040")
def test_flipping_back_and_forth_counts_each_activation() -> None:
    lab = Lab()
    lab.learn(1000)
    lab.press(0.95)
    for observe in (False, True) * 5:
        lab.set(observe_only=observe)
        lab.cycle()
        assert lab.topic().limiter.switch.on is not observe
    assert lab.metrics[ACTIVATIONS] == 5


@pytest.mark.seed("S5-062")
def test_only_transitions_count_as_activations() -> None:
    lab = Lab()
    lab.learn()
    lab.press(0.95)
    lab.cycle(times=5)
    assert (lab.metrics[ACTIVATIONS], lab.metrics[ACTIVE]) == (1, 1)


@pytest.mark.seed("S5-035")
def test_topics_without_a_limiter_are_skipped_and_forgotten_ones_too() -> None:
    lab = Lab(topics=2)
    lab.learn()
    lab.context.states["bare"] = TopicState(TopicName("bare", ""), lab.clock())
    lab.press(0.95, "bare")
    lab.press(0.95, "t0")
    del lab.context.states["t1"]
    lab.cycle()
    assert [topic.name for topic in lab.controller.topics] == ["t0"]
    assert lab.topic().active
    lab.context.states["t0"] = TopicState(TopicName("t0", ""), lab.clock())
    lab.gates["t0"] = lab.gate("t0")  # a state made anew has a limiter of its own
    lab.cycle()
    assert not lab.topic().active


@pytest.mark.seed("S5-022", "S5-087")
def test_a_quota_known_for_the_whole_topic_holds_for_its_partitions() -> None:
    lab = Lab(topics=0)
    name = TopicName("t-partition-0", "", ("t",))
    lab.context.states[name.full] = TopicState(name, lab.clock())
    lab.gate(name.full)
    lab.learn()
    lab.press(0.95, "t")
    lab.cycle()
    assert lab.topic(name.full).active


@pytest.mark.seed("S5-054")
def test_one_topic_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(topics=3)
    lab.learn()
    lab.press(0.95, "t0")
    lab.backlogs["t1"] = Backlog(float("nan"), 1)
    lab.press(0.95, "t2")
    lab.cycle(times=3)
    assert [lab.topic(name).active for name in ("t0", "t1", "t2")] == [True, False, True]
    [warning] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "evaluation failed topic=t1" in warning.getMessage()
    assert lab.metrics["sluicegate_adaptive_throttle_topic_failures_total"] == 3
    assert lab.metrics[FAILURES] == 0


@pytest.mark.seed("S5-052", "S5-053", "S5-055", "S5-092")
def test_a_failed_cycle_is_counted_and_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab()
    lab.learn(1000)
    lab.press(0.95)
    lab.cycle()
    good = lab.metrics["sluicegate_adaptive_throttle_last_success_timestamp"]

    def broken(*arguments: object) -> None:
        raise RuntimeError("no readings")

    with monkeypatch.context() as patch:
        patch.setattr("sluicegate.features.adaptive.readings.Readings.refresh", broken)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="no readings"):
                lab.cycle()
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in errors] == ["[AdaptiveThrottle] Evaluation cycle failed"] * 3
    assert all(record.exc_info for record in errors)
    assert lab.metrics[FAILURES] == 3
    assert lab.metrics["sluicegate_adaptive_throttle_last_success_timestamp"] == good
    attempt = lab.metrics["pulsar_broker_adaptive_throttle_controller_last_evaluation_timestamp"]
    assert attempt == lab.context.wall_ms() == good + 3000
    assert lab.topic().limiter.switch.on
    assert lab.topic().limiter.queue.bucket.messages_per_s == 750
    lab.cycle()
    assert lab.topic().messages_per_s == 500
    assert lab.metrics["sluicegate_adaptive_throttle_last_success_timestamp"] == lab.context.wall_ms()


@pytest.mark.seed("S5-052")
def test_a_cycle_that_is_cut_short_carries_out_what_it_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(topics=150)
    lab.learn()
    for name in lab.gates:
        lab.press(0.95, name)

    async def cancelled(delay: float) -> None:
        raise RuntimeError("cut short")

    with monkeypatch.context() as patch:
        patch.setattr("sluicegate.features.adaptive.controller.asyncio.sleep", cancelled)
        with pytest.raises(RuntimeError, match="cut short"):
            lab.cycle()
    assert [topic.limiter.switch.on for topic in lab.controller.topics] == [True] * 100 + [False] * 50
    assert [topic.active for topic in lab.controller.topics] == [True] * 100 + [False] * 50


@pytest.mark.seed("S5-036", "S5-055")
def test_a_limiter_that_cannot_be_changed_is_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(topics=2)
    lab.learn()
    lab.press(0.95, "t0")
    lab.press(0.95, "t1")
    monkeypatch.setattr(lab.topic("t0").limiter, "queue", None)
    lab.cycle()
    assert lab.topic("t1").limiter.switch.on
    assert lab.metrics["sluicegate_adaptive_throttle_topic_failures_total"] == 1
    assert len(lines(caplog, "evaluation failed topic=t0")) == 1


@pytest.mark.seed("S5-036")
def test_nothing_is_applied_while_nothing_changes() -> None:
    lab = Lab()
    lab.learn()
    lab.press(0.95)
    lab.cycle(times=4)
    before = lab.context.applied
    lab.cycle(times=10)
    assert lab.context.applied == before


@pytest.mark.seed("S5-070", "S5-071", "S5-072")
def test_the_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(settings=MEMORY)
    lab.learn(1000)
    lab.memory = 0.775
    lab.press(0.95)
    lab.cycle(times=6)
    lab.memory = 0.0
    lab.press(0.0)
    lab.cycle()
    assert lines(caplog, "[AdaptiveThrottle]") == [
        "[AdaptiveThrottle] ACTIVATED topic=t0 naturalMsgRate=1000.0/s naturalByteRate=100000/s "
        "effectiveMsgRate=750/s effectiveByteRate=75000/s rateFactor=0.100 pressureFactor=1.000 "
        "memoryPressure=0.500 backlogPressure=1.000 backlogBytes=950000 backlogQuotaBytes=1000000 "
        "backlogPct=95.0% minRateFactor=0.1 maxRateChangeFactor=0.25",
        "[AdaptiveThrottle] rate clamped at the minimum floor topic=t0 naturalMsgRate=1000.0/s "
        "naturalByteRate=100000/s effectiveMsgRate=100/s effectiveByteRate=10000/s rateFactor=0.100 "
        "pressureFactor=1.000 memoryPressure=0.500 backlogPressure=1.000 backlogBytes=950000 "
        "backlogQuotaBytes=1000000 backlogPct=95.0% minRateFactor=0.1 maxRateChangeFactor=0.25",
        "[AdaptiveThrottle] DEACTIVATED topic=t0 naturalMsgRate=1000.0/s naturalByteRate=100000/s",
    ]
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "WARNING", "INFO"]


@pytest.mark.seed("S5-072")
def test_each_line_is_logged_at_most_once_in_60_s_for_a_topic(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(topics=2)
    lab.learn()
    for cycle in range(120):
        for name in lab.gates:
            lab.press(0.95 if cycle % 2 == 0 else 0.0, name)
        lab.cycle()
    for topic in lab.gates:
        assert len(lines(caplog, f" ACTIVATED topic={topic} ")) == 2
        assert len(lines(caplog, f" DEACTIVATED topic={topic} ")) == 2


@pytest.mark.seed("S5-037", "S5-070")
def test_a_held_publish_says_why() -> None:
    lab = Lab(settings=MEMORY)
    lab.learn(1000)
    lab.memory = 0.775
    lab.press(0.95)
    lab.cycle(times=4)
    lab.publish(200, nbytes=10)
    decision = lab.decide(nbytes=10)
    assert decision is not None
    assert decision.factor == pytest.approx(0.1)
    assert 0 < decision.delay_ns <= 1_000_000_000
    [reason] = decision.reasons
    assert (reason.policy, reason.outcome) == ("adaptive_publish_throttling", Outcome.LIMIT_REACHED)
    assert (reason.current, reason.limit) == (1000, 100)
    assert reason.text == (
        "Publishing to topic t0 is throttled because of pressure on the broker. "
        "Current: 1000 messages/s naturally, Limit: 100 messages/s "
        "(memory pressure 0.50, backlog pressure 1.00). "
        "Slow down, let consumers catch up, or see the adaptive_publish_throttling policies."
    )
    by_bytes = lab.decide(nbytes=20_000)
    assert by_bytes is not None
    assert "Current: 100000 bytes/s naturally, Limit: 10000 bytes/s" in by_bytes.text


@pytest.mark.seed("S5-043", "S5-075")
def test_the_status_has_settings_and_topics_and_is_not_written_each_cycle() -> None:
    lab = Lab()
    lab.learn(1000)
    lab.press(0.95)
    lab.cycle(times=8)
    status = json.loads(lab.context.facts["adaptive.status"])
    assert status["throttled"] == 1
    assert status["observe_only"] is False
    assert status["settings"]["interval_ms"] == 1000
    assert status["sources"] == {"memory": "known", "backlog": "known"}
    assert status["topics"]["t0"]["messages_per_s"] == 100
    written = status["at_ms"]
    lab.cycle(times=30)
    assert json.loads(lab.context.facts["adaptive.status"])["at_ms"] == written


shares = st.lists(st.sampled_from([0.0, 0.5, 0.74, 0.76, 0.8, 0.825, 0.88, 0.9, 0.95, 2.0]), max_size=25)


@settings(max_examples=40)
@given(shares, shares, st.integers(1, 5000))
@pytest.mark.seed("S5-008", "S5-009", "S5-031", "S5-038", "S5-081")
def test_whatever_the_pressures_do(backlogs: list[float], memories: list[float], natural: int) -> None:
    lab = Lab(settings=MEMORY)
    lab.learn(natural)
    topic, before = lab.topic(), natural
    for backlog, memory in zip(backlogs, [*memories, *[0.0] * 25], strict=False):
        lab.press(backlog)
        lab.memory = memory
        lab.cycle()
        pressed = backlog > 0.75 or memory > 0.70
        assert topic.limiter.switch.on is topic.active is (pressed and topic.natural.known)
        if topic.active:
            known = topic.natural.messages_per_s
            assert topic.messages_per_s >= floor_rate(known, 0.10)
            assert abs(topic.messages_per_s - before) <= max(1, known * 0.25) + 1
        before = topic.messages_per_s if topic.active else int(topic.natural.messages_per_s)


@settings(max_examples=25)
@given(st.floats(0.751, 1.5), st.integers(1, 100_000))
@pytest.mark.seed("S5-038")
def test_constant_pressure_is_held_steadily(share: float, natural: int) -> None:
    lab = Lab()
    lab.learn(natural)
    lab.press(share)
    found = rates(lab, 12)
    assert found == sorted(found, reverse=True)
    assert len(set(found[-5:])) == 1
    lab.press(0.0)
    lab.cycle()
    assert not lab.topic().limiter.switch.on
