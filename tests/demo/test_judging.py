"""How scenes of each kind are judged, on rows of a decision log written by hand."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.demo.scenes import BEGAN_S, log, row

from sluicegate.demo.kinds import dispatch_rates, fixed_delays, publish_rates, sizes
from sluicegate.demo.kinds.changing_rates import Segment
from sluicegate.demo.kinds.judging import worst
from sluicegate.demo.scene import Scene, Seen, Verdict
from sluicegate.demo.topic_log import TopicLog
from sluicegate_kafka.demo import filling
from sluicegate_pulsar.demo import pressing

SECOND_NS = 1_000_000_000
RIGHT, DIFFERENT, UNSATURATED = Verdict.RIGHT, Verdict.DIFFERENT, Verdict.UNSATURATED


def saturated(
    rate: float,
    seconds: float,
    policy: str,
    operation: str = "publish",
    begin: float = 0.0,
    burst: int = 25,
    **more: Any,
) -> Iterator[dict[str, Any]]:
    """Rows of a limit of 50/s whose bucket was emptied at once and then gives this rate to ten that wait."""
    more = {"operation": operation, **more}
    for _ in range(burst):
        yield row(begin, **more)
    for n in range(1, int(rate * seconds)):
        at = begin + n / rate
        ten_more_ns = int(10 / rate * SECOND_NS)
        yield row(at, "delay", policy, delay=ten_more_ns, **{"current": 60.0, "limit": 50.0, **more})
        yield row(at, **more)


def passed(found: TopicLog, operation: str = "publish") -> list[tuple[float, float]]:
    """Each message as its client saw it: sent and acknowledged around the time at which it passed."""
    return [(each.at - 0.1, each.at + 0.01) for each in found.admitted(operation, "messages")]


# -- publish rates ------------------------------------------------------------------------------------

RATE = publish_rates.publish_rate("demo.t")


@pytest.mark.parametrize(
    ("rate", "verdict", "words"),
    [
        (50, RIGHT, "clients were held back for"),
        (60, DIFFERENT, "messages more than the limit permits"),
        (40, DIFFERENT, "messages less than the limit owes"),
    ],
)
def test_a_publish_rate(rate: float, verdict: Verdict, words: str) -> None:
    found = log(saturated(rate, 4, "max_publish_rate"))
    seen = Seen(True, "published", facts={"answered": passed(found)})
    observation = RATE.judge(seen, found)
    assert (observation.verdict, words in observation.text) == (verdict, True), observation.text


def test_clients_that_are_too_slow_show_nothing_of_a_rate() -> None:
    found = log(row(n / 10) for n in range(40))
    observation = RATE.judge(Seen(True, "40", facts={"answered": passed(found)}), found)
    assert observation.verdict is UNSATURATED
    assert observation.text.endswith(": they are too slow here to reach the limit")


def test_a_rate_that_delays_refuses_nothing() -> None:
    found = log(saturated(50, 4, "max_publish_rate"))
    seen = Seen(False, "some refused", "[Error 44]", {"answered": passed(found)})
    observation = RATE.judge(seen, found)
    assert (observation.verdict, observation.error) == (DIFFERENT, "[Error 44]")
    assert "a rate that delays refuses nothing" in observation.text


def test_a_log_that_keeps_something_back_is_no_witness() -> None:
    whole = log(saturated(60, 4, "max_publish_rate"))
    half = log(each for n, each in enumerate(whole.rows) if each["action"] == "delay" or n % 4)
    observation = RATE.judge(Seen(True, "", facts={"answered": passed(whole)}), half)
    assert observation.verdict is DIFFERENT
    assert "more was acknowledged than the decision log has" in observation.text


def test_bytes_count_where_the_limit_is_in_bytes() -> None:
    scene = publish_rates.publish_rate_bytes("demo.t")
    rows = list(saturated(50, 4, "max_publish_rate_bytes"))
    found = log({**each, "bytes": 64 * 1024 // 50} for each in rows)
    seen = Seen(True, "", facts={"answered": passed(found)})
    assert scene.judge(seen, found).verdict is RIGHT
    # The client knows that each of its messages has 1000 bytes, whatever the gate's log makes of it.
    fewer = log({**each, "bytes": 500} for each in rows)
    assert scene.judge(seen, fewer).verdict is DIFFERENT


@pytest.mark.parametrize(
    ("admitted", "refused_at", "met", "verdict", "words"),
    [
        (5, (0.01, 0.02), True, RIGHT, ""),
        (7, (0.01, 0.02), True, DIFFERENT, "more passed than the limit permits"),
        (5, (0.01, 0.9), True, DIFFERENT, "1 refused that the limit had room for"),
        (5, (0.01, 0.02), False, DIFFERENT, "still refused when the limit would admit them again"),
        (5, (), True, UNSATURATED, "too slow here to be refused"),
    ],
)
def test_a_rate_that_refuses(
    admitted: int, refused_at: tuple[float, ...], met: bool, verdict: Verdict, words: str
) -> None:
    scene = publish_rates.publish_rate_reject("demo.t")
    rows = [row(0.0) for _ in range(admitted)]
    rows += [row(at, "reject", "max_publish_rate") for at in refused_at]
    found = log(rows)
    facts = {"answered": passed(found), "refused": len(refused_at)}
    observation = scene.judge(Seen(met, "seen", facts=facts), found)
    assert (observation.verdict, words in observation.text) == (verdict, True), observation.text


# -- dispatch rates -----------------------------------------------------------------------------------


def received(found: TopicLog) -> dict[str, Any]:
    times = [each.at + 0.01 for each in found.admitted("dispatch", "messages")]
    return {"began": BEGAN_S - 1, "received": [times]}


@pytest.mark.parametrize(("rate", "verdict"), [(50, RIGHT), (60, DIFFERENT), (40, DIFFERENT)])
def test_a_dispatch_rate(rate: float, verdict: Verdict) -> None:
    scene = dispatch_rates.dispatch_rate("demo.t")
    found = log(saturated(rate, 4, "max_dispatch_rate", "dispatch"))
    observation = scene.judge(Seen(True, "", facts=received(found)), found)
    assert observation.verdict is verdict, observation.text
    slow = log(row(n / 10, operation="dispatch") for n in range(40))
    assert scene.judge(Seen(True, "", facts=received(slow)), slow).verdict is UNSATURATED


def test_readers_of_a_topic_are_judged_together() -> None:
    scene = dispatch_rates.dispatch_rate("demo.t", readers=2)
    found = log(saturated(50, 4, "max_dispatch_rate", "dispatch"))
    (times,) = received(found)["received"]
    halves = {"began": BEGAN_S - 1, "received": [times[::2], times[1::2]]}
    assert scene.judge(Seen(True, "", facts=halves), found).verdict is RIGHT
    twice = {"began": BEGAN_S - 1, "received": [times, times]}
    assert "a client got more than" in scene.judge(Seen(True, "", facts=twice), found).text


@pytest.mark.parametrize(("rate", "verdict"), [(32, RIGHT), (50, DIFFERENT)])
def test_a_dispatch_rate_of_bytes(rate: float, verdict: Verdict) -> None:
    scene = dispatch_rates.dispatch_rate("demo.t", unit="bytes")
    found = log(saturated(rate, 4, "max_dispatch_rate_bytes", "dispatch", burst=16, bytes=1024))
    assert scene.judge(Seen(True, "", facts=received(found)), found).verdict is verdict


@pytest.mark.parametrize(("rate", "verdict"), [(50, RIGHT), (80, DIFFERENT)])
def test_readers_without_a_group_are_judged_by_what_each_got(rate: float, verdict: Verdict) -> None:
    scene = dispatch_rates.subscription_dispatch_rate("demo.t", alone=True)
    found = log(
        saturated(rate, 4, "max_subscription_dispatch_rate", "dispatch"),
        saturated(rate, 4, "max_subscription_dispatch_rate", "dispatch"),
    )
    (times,) = received(found)["received"]
    facts = {"began": BEGAN_S, "received": [times[::2], times[1::2]]}
    assert scene.judge(Seen(True, "", facts=facts), found).verdict is verdict
    free = log(row(n / 10, operation="dispatch") for n in range(40))
    assert scene.judge(Seen(True, "", facts=received(free)), free).verdict is UNSATURATED


def test_each_subscription_is_judged_apart_and_the_worst_counts() -> None:
    scene = dispatch_rates.subscription_dispatch_rate("demo.t")
    policy = "max_subscription_dispatch_rate"
    one = list(saturated(50, 4, policy, "dispatch", subscription="one"))
    two = list(saturated(50, 4, policy, "dispatch", subscription="two"))
    fast = list(saturated(60, 4, policy, "dispatch", subscription="two"))
    facts = {"began": BEGAN_S - 1, "received": [[BEGAN_S], [BEGAN_S]]}
    assert scene.judge(Seen(True, "", facts=facts), log(one, two)).verdict is RIGHT
    leaving = row(4.5, operation="dispatch", subscription=None)
    assert scene.judge(Seen(True, "", facts=facts), log(one, two, [leaving])).verdict is RIGHT
    assert scene.judge(Seen(True, "", facts=facts), log(one, fast)).verdict is DIFFERENT
    assert scene.judge(Seen(True, "", facts=facts), log()).verdict is DIFFERENT


@pytest.mark.parametrize(
    ("passing", "dropped_at", "verdict", "words"),
    [
        (20, (0.01,), RIGHT, "1 rows drop"),
        (30, (0.01,), DIFFERENT, "more was let through than the limit permits"),
        (20, (0.9,), DIFFERENT, "1 dropped that the limit had room for"),
        (20, (), UNSATURATED, "too slow here to exceed the rate"),
    ],
)
def test_a_rate_that_drops(passing: int, dropped_at: tuple[float, ...], verdict: Verdict, words: str) -> None:
    scene = dispatch_rates.dispatch_rate_drop("demo.t")
    rows = [row(0.0, operation="dispatch") for _ in range(passing)]
    rows += [row(at, "drop", "max_dispatch_rate", operation="dispatch") for at in dropped_at]
    observation = scene.judge(Seen(True, "seen", facts={"arrived": passing}), log(rows))
    assert (observation.verdict, words in observation.text) == (verdict, True), observation.text


# -- delays -------------------------------------------------------------------------------------------

PUBLISHED_MS = [BEGAN_S * 1000 + 50 * n for n in range(20)]


def delayed(released_ms: float, ages_ms: float = 2010.0, **more: list[float]) -> tuple[Seen, TopicLog]:
    """Twenty messages that the gate let go so long after they were published, and that came so late."""
    rows = [row(0.05 * n + released_ms / 1000, operation="dispatch") for n in range(20)]
    facts = {"published_ms": PUBLISHED_MS, "received_ms": [each + ages_ms for each in PUBLISHED_MS], **more}
    return Seen(True, "20 of 20 messages", facts=facts), log(rows)


DELAY = fixed_delays.fixed_delay("demo.t")


def test_a_delay_may_be_late_and_never_early() -> None:
    assert DELAY.judge(*delayed(2001)).verdict is RIGHT
    assert DELAY.judge(*delayed(9000, 9010)).verdict is RIGHT
    late_client = DELAY.judge(*delayed(1995))
    assert late_client.verdict is DIFFERENT
    assert "up to 3.0 ms too early" in late_client.text
    assert DELAY.judge(*delayed(2001, 1999.0)).verdict is DIFFERENT


def test_a_delay_keeps_the_order_where_the_system_does() -> None:
    mixed = [PUBLISHED_MS[1], PUBLISHED_MS[0], *PUBLISHED_MS[2:]]
    found = delayed(2001, published_ms=mixed, received_ms=[each + 2100 for each in PUBLISHED_MS])
    assert DELAY.judge(*found).verdict is DIFFERENT
    assert fixed_delays.fixed_delay("demo.t", in_order=False).judge(*found).verdict is RIGHT


def test_a_missing_delayed_message_is_different() -> None:
    seen, found = delayed(2001)
    assert DELAY.judge(replace(seen, met=False), found).verdict is DIFFERENT
    nothing = Seen(False, "0", facts={"published_ms": [], "received_ms": []})
    assert DELAY.judge(nothing, log()).text == "none of 20 messages came"


# -- what is answered at once -------------------------------------------------------------------------


def test_what_is_only_observed_leaves_one_row() -> None:
    scene = sizes.observe_only("demo.t")
    told = row(0.0, "would_reject", "max_message_size", current=5120.0, limit=1024.0)
    right = scene.judge(Seen(True, "5 KiB accepted"), log(told))
    assert right.verdict is RIGHT
    assert right.text.endswith("1 row would_reject in the decision log: 5120 B against a limit of 1024 B")
    assert scene.judge(Seen(True, ""), log()).verdict is DIFFERENT
    assert scene.judge(Seen(False, ""), log(told)).verdict is DIFFERENT


@pytest.mark.parametrize("met", [True, False])
def test_what_has_no_judge_of_its_own_is_judged_by_what_clients_saw(met: bool) -> None:
    observation = sizes.message_size("demo.t").judge(Seen(met, "seen", "error"), log())
    assert (observation.verdict is RIGHT) is met
    assert (observation.text, observation.error) == ("seen", "error")


def test_of_several_observations_the_worst_counts() -> None:
    verdicts = [RIGHT, UNSATURATED, DIFFERENT]
    found = [RATE.judge(Seen(True, "", facts={"answered": []}), log())]
    assert worst([replace(found[0], verdict=each) for each in verdicts]).verdict is DIFFERENT
    assert worst([replace(found[0], verdict=each) for each in verdicts[:2]]).verdict is UNSATURATED


# -- limits that follow the brokers -------------------------------------------------------------------


def segment(name: str, begin: float, end: float, held: bool = True) -> dict[str, Any]:
    return {"name": name, "begin": BEGAN_S + begin, "end": BEGAN_S + end, "held": held}


@pytest.mark.parametrize(("rate", "verdict"), [(50, RIGHT), (65, DIFFERENT), (30, DIFFERENT)])
def test_a_segment_is_judged_by_the_limits_that_were_in_force(rate: float, verdict: Verdict) -> None:
    found = log(saturated(rate, 4, "publish_quota"))
    observation = Segment(found, segment("room", 1.0, 3.0), 0.1, 10).judge()
    assert observation.verdict is verdict, observation.text
    free = log(row(n / 10) for n in range(40))
    assert Segment(free, segment("room", 1.0, 3.0), 0.1, 10).judge().verdict is UNSATURATED


def volume(pause_rows: list[dict[str, Any]], *, paused: bool = True) -> tuple[Seen, TopicLog]:
    rows = list(saturated(50, 2, "publish_quota", factor=1.0))
    rows += saturated(50, 2, "storage_quota", begin=2.5, factor=0.5)
    rows += [row(5.0, "delay", "storage_quota", factor=0.0, limit=0.0, current=1.0, delay=SECOND_NS)]
    segments = [segment("room", 0.2, 2.0), segment("ramp", 2.7, 4.4), segment("pause", 5.0, 6.5, paused)]
    facts = {"began": BEGAN_S, "ended": BEGAN_S + 7, "segments": segments}
    return Seen(True, "none was refused", facts=facts), log(rows, pause_rows)


def judged(scene: Scene, found: tuple[Seen, TopicLog]) -> tuple[Verdict, str]:
    observation = scene.judge(*found)
    assert observation.chart is not None
    return observation.verdict, observation.text


def test_a_volume_that_fills_up() -> None:
    [scene] = filling.SCENES
    assert judged(scene, volume([]))[0] is RIGHT
    verdict, text = judged(scene, volume([row(5.5)]))
    assert (verdict, "pause: 1 messages passed" in text) == (DIFFERENT, True)
    assert judged(scene, volume([row(5.5)], paused=False))[0] is UNSATURATED
    seen, found = volume([])
    without = log(each for each in found.rows if each["factor"] != 0.0)
    assert "no row delay by storage_quota with factor 0" in judged(scene, (seen, without))[1]
    assert judged(scene, (replace(seen, met=False, text="the pause did not come"), found)) == (
        DIFFERENT,
        "the pause did not come",
    )


def test_a_volume_that_others_fill_is_no_fault_of_the_policy() -> None:
    [scene] = filling.SCENES
    seen, found = volume([])
    late = replace(seen, met=False, text="the pause did not come", facts={**seen.facts, "others": 3 << 20})
    verdict, text = judged(scene, (late, found))
    assert (verdict, "filled this volume by 3 MiB too much" in text) == (UNSATURATED, True)
    alone = replace(late, facts={**seen.facts, "others": -(1 << 20)})
    assert judged(scene, (alone, found))[0] is DIFFERENT


def test_a_backlog_that_builds_up() -> None:
    [scene] = pressing.SCENES
    policy = "adaptive_publish_throttling"
    rows = list(saturated(50, 4, policy, factor=0.1))
    segments = [segment("floor", 1.0, 3.0), segment("released", 5.0, 7.0)]
    facts = {"began": BEGAN_S, "ended": BEGAN_S + 7, "segments": segments}
    seen = Seen(True, "none was refused", facts=facts)
    assert judged(scene, (seen, log(rows, row(6.0))))[0] is RIGHT
    # The same where the log tells the limit in bytes/s: at most is held against messages.
    in_bytes = [{**each, "current": 500 * 2_400.0, "limit": 50 * 2_400.0} for each in rows]
    assert judged(scene, (seen, log(in_bytes)))[0] is RIGHT
    fast = [
        {**each, "current": 500 * 2_400.0, "limit": 50 * 2_400.0}
        for each in saturated(90, 4, policy, factor=0.1)
    ]
    assert judged(scene, (seen, log(fast)))[0] is DIFFERENT
    late = row(6.0, "delay", policy, factor=0.9, limit=200.0, delay=1)
    assert judged(scene, (seen, log(rows, late)))[0] is DIFFERENT
