"""What is known of all nodes: freshness, nodes that come and go, the smallest factor."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.features.storage_quota.lab import CONSUMED, FREE, PERCENT, WALL_MS, limits, usage

from sluicegate.config.models import OnUnknown
from sluicegate.features.storage_quota.usage_tracker import (
    FUTURE_MS,
    MAX_BROKERS,
    MAX_VOLUMES,
    UsageTracker,
    Verdict,
)
from sluicegate.features.storage_quota.volumes import Limits, State

STALE_MS = 300_000
RAMP = limits((CONSUMED, 90), (CONSUMED, 80))


def tracker(**states: int) -> UsageTracker:
    """Nodes with one volume of 100 bytes, by bytes in use; `b1=85`."""
    made = UsageTracker()
    for broker, used in states.items():
        assert made.offer(broker, usage(("v", 100, used)), WALL_MS, STALE_MS)
    return made


def judge(
    known: UsageTracker,
    after_ms: int = 0,
    *,
    own: Limits = RAMP,
    active: set[str] | None = None,
    on_unknown: OnUnknown = "pause",
) -> Verdict:
    return known.judge(
        own, WALL_MS + after_ms, stale_ms=STALE_MS, active=active, on_unknown=on_unknown, failed="no route"
    )


@pytest.mark.seed("S4-011", "S4-013", "S4-033")
def test_the_fullest_volume_of_any_node_decides_for_all() -> None:
    found = judge(tracker(b1=10, b2=85, b3=82))
    assert found.state is State.THROTTLE
    assert found.factor == pytest.approx(0.5)
    assert found.why == "broker b2 volume v: 85 of 100 bytes used, hard limit at 90, soft limit at 80"
    found = judge(tracker(b1=10, b2=85, b3=90))
    assert (found.state, found.factor) == (State.PAUSE, 0.0)
    assert found.why.startswith("broker b3 volume v: 90 of 100")


@pytest.mark.seed("S4-014")
def test_open_when_no_volume_is_beyond_its_soft_limit() -> None:
    found = judge(tracker(b1=80, b2=0))
    assert (found.state, found.factor, found.known, found.lack_of_data) == (State.OPEN, 1.0, True, False)


@pytest.mark.seed("S4-034")
def test_each_volume_is_judged_and_not_the_sum_of_a_node() -> None:
    known = UsageTracker()
    known.offer("b1", usage(("full", 100, 90), ("empty", 10_000, 0)), WALL_MS, STALE_MS)
    assert judge(known, own=limits((PERCENT, Fraction(1, 10)))).state is State.PAUSE


@pytest.mark.seed("S4-023", "S4-027")
def test_limits_of_a_node_apply_beside_the_gateways_own_and_the_stricter_counts() -> None:
    known = UsageTracker()
    told = limits((CONSUMED, 60), (CONSUMED, 40))
    known.offer("b1", usage(("v", 100, 50), told=told), WALL_MS, STALE_MS)
    assert judge(known, own=Limits()).factor == pytest.approx(0.5)
    assert judge(known).factor == pytest.approx(0.5)
    assert judge(known, own=limits((FREE, 60))).factor == 0.0
    known.offer("b1", usage(("v", 100, 60), told=limits((CONSUMED, 60), (CONSUMED, 70))), WALL_MS, STALE_MS)
    assert judge(known, own=Limits()).state is State.PAUSE


@pytest.mark.seed("S4-028")
def test_impossible_figures_pause_with_a_reason() -> None:
    known = UsageTracker()
    known.offer("b1", usage(("v", 0, 0)), WALL_MS, STALE_MS)
    found = judge(known)
    assert (found.state, found.known) == (State.PAUSE, True)
    assert found.why == "broker b1 volume v: 0 of 0 bytes used is impossible, counts as full"


@pytest.mark.seed("S4-015", "S4-031", "X-02")
@pytest.mark.parametrize(
    ("on_unknown", "state", "factor"),
    [("pause", State.PAUSE, 0.0), ("open", State.THROTTLE, 0.5), ("last", State.THROTTLE, 0.5)],
)
def test_a_node_that_is_up_and_of_which_nothing_is_known(
    on_unknown: OnUnknown, state: State, factor: float
) -> None:
    found = judge(tracker(b1=85), active={"b1", "b2"}, on_unknown=on_unknown)
    assert found.state is state
    assert found.factor == pytest.approx(factor)
    assert (found.unknown, found.known) == (("b2",), False)
    assert found.lack_of_data is (on_unknown == "pause")
    assert found.why.startswith("no fresh usage of broker b2 (no route)")


@pytest.mark.seed("S4-015")
@pytest.mark.parametrize(
    ("on_unknown", "state"), [("pause", State.PAUSE), ("open", State.OPEN), ("last", State.PAUSE)]
)
def test_before_anything_was_read(on_unknown: OnUnknown, state: State) -> None:
    found = judge(UsageTracker(), on_unknown=on_unknown)
    assert (found.state, found.known) == (state, False)
    assert found.why == "the usage of all volumes is unknown (no route)"


@pytest.mark.seed("S4-016", "S4-017")
def test_a_state_counts_until_it_is_stale_by_when_it_was_measured() -> None:
    known = tracker(b1=0)
    assert judge(known, STALE_MS).state is State.OPEN
    assert judge(known, STALE_MS + 1).state is State.PAUSE
    assert judge(known, STALE_MS + 1, on_unknown="open").volumes == ()
    assert judge(tracker(b1=85), STALE_MS + 1, on_unknown="last").factor == pytest.approx(0.5)


@pytest.mark.seed("S4-016", "S4-017")
def test_ancient_and_future_states_are_refused_and_counted() -> None:
    known = tracker(b1=85)
    for at_ms in (WALL_MS - STALE_MS - 1, WALL_MS + FUTURE_MS + 1, 0, 2**62):
        assert not known.offer("b1", usage(("v", 100, 0), at_ms=at_ms), WALL_MS, STALE_MS)
    assert dict(known.refused) == {"stale": 2, "future": 2}
    assert judge(known).factor == pytest.approx(0.5)
    assert known.offer("b1", usage(("v", 100, 0), at_ms=WALL_MS + FUTURE_MS), WALL_MS, STALE_MS)


@pytest.mark.seed("S4-030")
def test_of_several_states_of_a_node_the_latest_counts() -> None:
    known = tracker(b1=85)
    assert not known.offer("b1", usage(("v", 100, 0), at_ms=WALL_MS - 1), WALL_MS, STALE_MS)
    assert known.refused["older"] == 1
    assert known.offer("b1", usage(("v", 100, 81), at_ms=WALL_MS), WALL_MS, STALE_MS)
    assert judge(known).factor == pytest.approx(0.9)


def test_a_gate_whose_clock_is_set_back_takes_new_states_at_once() -> None:
    known = tracker(b1=85)
    earlier = WALL_MS - 3_600_000
    assert judge(known, -3_600_000).known is False
    assert known.offer("b1", usage(("v", 100, 0), at_ms=earlier), earlier, STALE_MS)
    assert judge(known, -3_600_000).state is State.OPEN


@pytest.mark.seed("S4-031")
def test_a_node_that_restarts_keeps_its_state_until_it_is_stale_and_is_then_forgotten() -> None:
    known = tracker(b1=0, b2=85)
    known.expire(WALL_MS + STALE_MS, STALE_MS, {"b1"}, 0)
    assert judge(known, STALE_MS, active={"b1"}).factor == pytest.approx(0.5)
    known.offer("b1", usage(("v", 100, 0), at_ms=WALL_MS + STALE_MS), WALL_MS + STALE_MS, STALE_MS)
    known.expire(WALL_MS + STALE_MS + 1, STALE_MS, {"b1"}, 0)
    assert judge(known, STALE_MS + 1, active={"b1"}).state is State.OPEN
    assert dict(known.evictions) == {("b2", "v"): 1}


def test_where_no_cluster_is_asked_a_node_that_is_gone_is_unknown_for_a_while() -> None:
    known = tracker(b1=0, b2=0)
    for after_ms in range(60_000, 1_200_000, 60_000):
        known.offer("b1", usage(("v", 100, 0), at_ms=WALL_MS + after_ms), WALL_MS + after_ms, STALE_MS)
        known.expire(WALL_MS + after_ms, STALE_MS, None, 600_000)
        found = judge(known, after_ms)
        assert found.unknown == (("b2",) if STALE_MS < after_ms <= STALE_MS + 600_000 else ())


def test_nodes_that_are_expected_are_never_forgotten() -> None:
    known = UsageTracker(expected=("b1", "b2"))
    known.offer("b1", usage(("v", 100, 0)), WALL_MS, STALE_MS)
    assert judge(known).unknown == ("b2",)
    known.expire(WALL_MS + 10**9, STALE_MS, (), 0)
    assert judge(known, 10**9, active=set()).unknown == ("b1", "b2")


def test_volumes_that_a_node_no_longer_has_are_counted_as_evicted() -> None:
    known = tracker(b1=85)
    known.offer("b1", usage(("w", 100, 0)), WALL_MS, STALE_MS)
    known.forget("b1")
    known.forget("b1")
    assert dict(known.evictions) == {("b1", "v"): 1, ("b1", "w"): 1}
    assert judge(known).known is False


def test_the_number_of_nodes_is_bounded() -> None:
    known = UsageTracker(states={str(number): usage() for number in range(MAX_BROKERS)})
    assert not known.offer("one more", usage(), WALL_MS, STALE_MS)
    assert dict(known.refused) == {"too_many": 1}


def test_a_text_names_a_few_nodes_and_counts_the_others() -> None:
    found = judge(UsageTracker(expected=[f"b{number}" for number in range(9)]))
    assert "brokers b0, b1, b2, b3, b4 and 4 more" in found.why


@pytest.mark.seed("S4-013")
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 100)), min_size=1, max_size=6))
def test_the_factor_is_the_smallest_and_never_grows_with_one_more_volume(
    volumes: list[tuple[int, int]],
) -> None:
    factors = []
    for count in range(1, len(volumes) + 1):
        known = UsageTracker()
        for broker in {broker for broker, _ in volumes[:count]}:
            own = [
                (f"v{place}", 100, used) for place, (of, used) in enumerate(volumes[:count]) if of == broker
            ]
            known.offer(str(broker), usage(*own), WALL_MS, STALE_MS)
        found = judge(known)
        assert found.factor == min(judged.factor for judged in found.volumes)
        factors.append(found.factor)
    assert all(after <= before for before, after in pairwise(factors))


def test_volumes_of_all_nodes_are_bounded_together() -> None:
    known = UsageTracker()
    many = usage(*((f"v{number}", 100, 0) for number in range(MAX_VOLUMES - 1)))
    one, two = usage(("v", 100, 0)), usage(("v", 100, 0), ("w", 100, 0))
    assert known.offer("b1", many, WALL_MS, STALE_MS)
    assert known.offer("b2", one, WALL_MS, STALE_MS)
    assert not known.offer("b2", two, WALL_MS, STALE_MS)
    assert known.offer("b2", one, WALL_MS, STALE_MS)
    assert known.refused["too_many"] == 1
    known.forget("b1")
    assert known.offer("b2", two, WALL_MS, STALE_MS)


def test_names_of_volumes_that_come_and_go_are_bounded() -> None:
    known = UsageTracker()
    for number in range(1_200):
        assert known.offer("b1", usage((f"v{number}", 100, 0)), WALL_MS, STALE_MS)
    assert len(known.evictions) == 1_001
    assert known.evictions["other", "other"] == 199
