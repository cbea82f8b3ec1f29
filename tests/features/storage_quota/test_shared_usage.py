"""One gateway reads the usage, the others take it over by their own clocks and policies."""

import json
from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.features.storage_quota.lab import CONSUMED, FREE, PERCENT, Context, limits, usage
from tests.features.storage_quota.test_quota import RAMP, STORAGE, Lab

from sluicegate.features.storage_quota.quota import StorageReadError
from sluicegate.features.storage_quota.shared_usage import Readings, SharedUsage
from sluicegate.features.storage_quota.snapshot import BrokerUsage
from sluicegate.features.storage_quota.volumes import Limit, Limits, State, Volume

PROMETHEUS = {"source": "prometheus", "url": "http://p", "capacity_query": "c", "free_query": "f"}
HOUR_S = 3600


class Pair:
    """Two gateways whose clocks differ by an hour; the first one leads."""

    def __init__(self, *, active: bool = False, is_on: bool = False, **policies: object) -> None:
        self.contexts = [Context(PROMETHEUS, **{**RAMP, **policies}) for _ in range(2)]
        self.contexts[1].advance(HOUR_S)
        self.leader, self.other = (Lab(each, active=active, is_on=is_on) for each in self.contexts)
        self.at_other = self.contexts[1]

    def advance(self, seconds: float) -> None:
        for context in self.contexts:
            context.advance(seconds)

    async def run(self, **used: int) -> tuple[State, float]:
        """The leader reads and tells; the other takes it over 2 s later."""
        await self.leader.run(**used)
        findings = self._shared(self.leader).findings()
        self.advance(2)
        return self.take(findings, 2)

    def take(self, findings: str, age_s: float) -> tuple[State, float]:
        self._shared(self.other).take(findings, age_s)
        return self.other.quota.verdict.state, round(self.other.quota.factor.value, 3)

    @staticmethod
    def _shared(lab: Lab) -> SharedUsage:
        shared = lab.quota.task.shared
        assert isinstance(shared, SharedUsage)
        return shared


async def test_the_other_judges_what_it_did_not_read() -> None:
    pair = Pair()
    assert await pair.run(b1=85) == (State.THROTTLE, 0.5)
    assert await pair.run(b1=20, b2=90) == (State.PAUSE, 0.0)
    assert pair.other.quota.factor.why == pair.leader.quota.factor.why
    assert await pair.run(b2=10) == (State.OPEN, 1.0)
    assert pair.other.quota.factor.known


async def test_the_other_judges_by_its_own_policies() -> None:
    pair = Pair()
    pair.at_other.set(storage_hard_consumed_bytes=50)
    assert await pair.run(b1=60) == (State.PAUSE, 0.0)
    assert pair.leader.quota.verdict.state is State.OPEN


async def test_the_metrics_are_as_if_the_other_had_read() -> None:
    pair = Pair()
    await pair.run(b1=85, b2=95)
    pair.leader.error = StorageReadError("no route")
    await pair.run()
    pair.leader.error = None
    await pair.run(b1=85, b2=95)
    one, other = (dict(each.values) for each in pair.contexts)
    assert other == one
    assert pair.at_other.metric("consumed_bytes", "b2", "v") == 95
    assert pair.at_other.metric("read_failures") == 1


async def test_states_grow_stale_by_the_clock_of_who_took_them_over() -> None:
    pair = Pair()
    await pair.leader.run(b1=85)
    findings = Pair._shared(pair.leader).findings()
    pair.advance(300)
    assert pair.take(findings, 300) == (State.THROTTLE, 0.5)
    pair.advance(0.001)
    assert pair.take(findings, 300.001) == (State.PAUSE, 0.0)
    assert pair.other.quota.factor.why == "no fresh usage of broker b1"
    assert pair.at_other.metric("lack_of_data") == 1


async def test_what_is_taken_twice_is_neither_newer_nor_refused() -> None:
    pair = Pair()
    await pair.run(b1=85)
    findings = Pair._shared(pair.leader).findings()
    pair.advance(60)
    for age_s in (62.0, 62.1, 61.9):  # the network is faster at times
        assert pair.take(findings, age_s) == (State.THROTTLE, 0.5)
    assert pair.other.quota.tracker.refused == Counter()
    assert pair.other.quota.tracker.states["b1"].at_ms == pytest.approx(pair.at_other.now - 64_000, abs=150)


async def test_a_failed_reading_is_one_of_the_other_too() -> None:
    pair = Pair()
    await pair.run(b1=85)
    pair.leader.error = StorageReadError("no route")
    pair.advance(296)
    assert await pair.run() == (State.THROTTLE, 0.5)
    assert pair.at_other.metric("connected") == 0
    assert await pair.run() == (State.PAUSE, 0.0)
    assert pair.other.quota.factor.why == "no fresh usage of broker b1 (no route)"


async def test_nodes_that_are_up_and_limits_of_nodes_are_handed_on() -> None:
    pair = Pair(active=True, is_on=True)
    told = limits((PERCENT, Fraction(29, 100)), (FREE, 50))
    pair.leader.usage = {"b1": usage(("v", 100, 60), at_ms=pair.contexts[0].now, told=told)}
    pair.leader.up = ("b1", "b2")
    assert await pair.run() == (State.PAUSE, 0.0)
    assert pair.other.quota.factor.why.startswith("no fresh usage of broker b2")
    pair.leader.up = ("b1",)
    assert await pair.run() == (State.THROTTLE, round(11 / 21, 3))
    assert pair.other.quota.tracker.states["b1"].limits == told
    assert pair.at_other.metric("active_brokers") == 1


async def test_a_node_that_the_leader_forgot_is_forgotten() -> None:
    pair = Pair()
    await pair.run(b1=0, b2=95)
    del pair.leader.used["b2"]
    pair.leader.quota.tracker.forget("b2")
    assert await pair.run() == (State.OPEN, 1.0)
    assert pair.at_other.metric("volume_evictions", "b2", "v") == 1


async def test_who_reads_next_goes_on_with_what_was_known() -> None:
    pair = Pair()
    await pair.run(b1=0, b2=85)
    pair.advance(60)
    assert await pair.other.run(b1=0) == (State.THROTTLE, 0.5), "b2 is not gone, its last state counts"
    pair.advance(3_600 + 300 - 62)
    assert await pair.other.run(b1=0) == (State.PAUSE, 0.0), "it was seen, and is missing"
    pair.advance(0.001)
    assert await pair.other.run(b1=0) == (State.OPEN, 1.0), "it is forgotten when the first one would have"


async def test_too_many_volumes_are_read_by_each() -> None:
    pair = Pair()
    volumes = tuple(Volume(f"/data/kafka/volume-{number}", 2**40, 2**39) for number in range(8_000))
    pair.leader.usage = {"b1": BrokerUsage(volumes, pair.contexts[0].now)}
    with pytest.raises(ValueError, match="the usage of 8000 volumes is too much to be shared"):
        await pair.run()
    pair.leader.usage = {"b1": BrokerUsage(volumes[:4_000], pair.contexts[0].now)}
    await pair.run()
    assert pair.at_other.metric("active_volumes") == 4_000


@pytest.mark.parametrize(
    "findings", ["", "{", "[]", "{}", '{"nodes": {"b1": {}}, "active": null, "failed": ""}']
)
async def test_what_cannot_be_read_changes_nothing(findings: str) -> None:
    pair = Pair()
    await pair.run(b1=85)
    with pytest.raises(ValueError):  # noqa: PT011 - pydantic's texts
        pair.take(findings, 0)
    assert pair.other.quota.factor.value == 0.5


def test_file_systems_of_a_host_are_not_shared() -> None:
    assert Lab(Context(STORAGE, **RAMP)).quota.task.shared is None


_limits = st.lists(
    st.one_of(
        st.builds(Limit, st.sampled_from([CONSUMED, FREE]), st.integers(0, 2**63)),
        st.builds(Limit, st.just(PERCENT), st.fractions(0, 1)),
    ),
    max_size=2,
).map(tuple)
_usages = st.builds(
    BrokerUsage,
    st.lists(
        st.builds(Volume, st.text(max_size=9), st.integers(), st.integers()), max_size=3
    ).map(tuple),
    st.integers(-(2**40), 2**42),
    st.builds(Limits, _limits, _limits),
)  # fmt: skip


@given(
    st.dictionaries(st.text(max_size=5), _usages, max_size=4),
    st.none() | st.frozensets(st.text(max_size=5)),
    st.text(),
    st.integers(0, 10**7),
    st.integers(-(10**8), 10**8),
)
def test_what_is_handed_on_is_the_same_at_the_same_age(
    states: dict[str, BrokerUsage], active: frozenset[str] | None, failed: str, age_ms: int, ahead_ms: int
) -> None:
    seen = {name: usage.at_ms + 1 for name, usage in states.items()}
    taken: list[Readings] = []
    ours = SharedUsage(lambda: Readings(states, seen, active, failed), taken.append, lambda: 0)
    theirs = SharedUsage(ours._readings, taken.append, lambda: age_ms + ahead_ms)
    findings = ours.findings()
    json.loads(findings)
    theirs.take(findings, age_ms / 1000)
    [got] = taken
    assert (got.active, got.failed) == (active, failed)
    assert {
        name: BrokerUsage(each.volumes, each.at_ms - ahead_ms, each.limits)
        for name, each in got.states.items()
    } == states
    assert {name: at_ms - ahead_ms for name, at_ms in got.seen_ms.items()} == seen
