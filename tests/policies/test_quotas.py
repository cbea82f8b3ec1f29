"""Quotas over all topics, and what factors leave of them: each with its own bucket and its own reason."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.lab import MS, SECOND_NS, PolicyLab, publish, verdict

from sluicegate.config.models import NamedQuota
from sluicegate.engine.factors import Factor
from sluicegate.engine.gate import Gate
from sluicegate.engine.quota import Quota
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, PolicyValue
from sluicegate.policies.quota_limit import TOGETHER
from sluicegate.policies.quotas import EACH as BY_PRINCIPAL
from sluicegate.policies.shares import Shares
from sluicegate.testing import ManualContext

ALL = "publish_quota_bytes"
EACH = "principal_publish_quota_bytes"
RATE = "max_publish_rate_bytes"


def by(principal: str, nbytes: int = 100, topic: str = "/default/orders") -> Operation:
    op = publish(1, nbytes)
    op.principal, op.topic = principal, topic
    return op


@pytest.fixture
def disk(lab: PolicyLab) -> Factor:
    """A factor of the lab's gateway."""
    factor = Factor("disk", "Free some space.")
    lab.context = ManualContext()
    lab.context.add([factor])
    return factor


def gates(lab: PolicyLab, values: dict[str, PolicyValue], *topics: str, exempt: bool = False) -> list[Gate]:
    if lab.context is not None:
        lab.context.values = dict(values)
    return [lab.gate(values, topic=topic, exempt=exempt) for topic in topics]


@pytest.mark.seed("S4-001")
def test_all_principals_share_one_quota_over_all_topics(lab: PolicyLab) -> None:
    one, two = gates(lab, {ALL: 1000}, "/default/one", "/default/two")
    assert one.publish(by("a", 600), 0) is None
    assert two.publish(by("b", 400), 0) is None
    op = by("c", 50, "/default/two")

    held = two.publish(op, 0)

    assert verdict(held) == (Action.DELAY, ALL, Outcome.LIMIT_REACHED)
    assert held is not None
    assert held.delay_ns == pytest.approx(50 * MS, abs=2)
    assert held.text == (
        "Publish quota exceeded by all principals on topic /default/two. "
        "Current: 1050 bytes/s, Limit: 1000 bytes/s. Slow down or increase publish_quota_bytes policy."
    )
    assert one.publish(by("a", 1), held.delay_ns) is not None  # it waits behind the first
    assert two.publish(op, held.delay_ns) is None


@pytest.mark.seed("S4-001")
def test_each_principal_has_its_own_and_leaves_the_others_alone(lab: PolicyLab) -> None:
    one, two = gates(lab, {EACH: 1000, "principal_publish_quota": 5}, "/default/one", "/default/two")
    assert one.publish(by("a", 1000), 0) is None

    held = two.publish(by("a", 10), 0)

    assert verdict(held) == (Action.DELAY, EACH, Outcome.LIMIT_REACHED)
    assert held is not None
    assert "by principal a on topic" in held.text
    assert [verdict(one.publish(by("b", 10), 0)) for _ in range(6)] == [
        *[None] * 5,
        (Action.DELAY, "principal_publish_quota", Outcome.LIMIT_REACHED),
    ]


def test_a_quota_may_refuse_at_once(lab: PolicyLab) -> None:
    [gate] = gates(lab, {EACH: 1000, f"on_limit.{EACH}": "reject"}, "/default/orders")
    assert gate.publish(by("a", 1000), 0) is None
    op = by("a", 10)

    refused = gate.publish(op, 0)

    assert verdict(refused) == (Action.REJECT, EACH, Outcome.LIMIT_REACHED)
    assert op.waiter is None
    assert gate.publish(op, 10 * MS + 2) is None


@pytest.mark.seed("S4-001", "S4-004", "S4-007")
def test_plugins_say_what_single_principals_may_and_who_shares(lab: PolicyLab) -> None:
    lab.context = ManualContext(
        quotas={"x": Quota(bytes_per_s=1000, share="pair"), "y": Quota(bytes_per_s=1000, share="pair")}
    )
    [gate] = gates(lab, {}, "/default/orders")
    assert gate.publish(by("x", 600), 0) is None
    assert gate.publish(by("y", 400), 0) is None

    assert verdict(gate.publish(by("x", 1), 0)) == (Action.DELAY, EACH, Outcome.LIMIT_REACHED)
    assert gate.publish(by("z", 10**6), 0) is None


def test_an_entry_names_the_quota_of_one_principal_in_place_of_that_of_each(lab: PolicyLab) -> None:
    [plugin] = [plugin for plugin in lab.plugins if hasattr(plugin, "sluicegate_quota")]
    config = SimpleNamespace(quotas=(NamedQuota(principal="User:a", messages=7, bytes=0),))
    context = ManualContext(config=config, values={EACH: 1000})

    assert plugin.sluicegate_quota("User:a", context) == Quota(7, 0, "principal User:a")
    assert plugin.sluicegate_quota("User:b", context) == Quota(0, 1000, "principal User:b")
    assert plugin.sluicegate_quota("User:b", ManualContext()) is None


def test_a_changed_quota_is_asked_for_again_and_the_balance_stays(lab: PolicyLab) -> None:
    lab.context = ManualContext(quotas={"x": Quota(bytes_per_s=1000, share="x")})
    [gate] = gates(lab, {}, "/default/orders")
    assert gate.publish(by("x", 1000), 0) is None
    lab.context.quotas["x"] = Quota(bytes_per_s=10_000, share="x")
    op = by("x", 100)
    assert gate.publish(op, 0) is not None

    lab.version = 2
    [gate] = gates(lab, {}, "/default/orders")

    held = gate.publish(op, 0)
    assert held is not None
    assert held.reasons[0].limit == 10_000
    assert held.delay_ns == pytest.approx(10 * MS, abs=2)


@pytest.mark.seed("X-06")
def test_exempt_principals_skip_quotas_and_factors(lab: PolicyLab, disk: Factor) -> None:
    [gate] = gates(lab, {ALL: 10, EACH: 10, RATE: 10}, "/default/orders", exempt=True)
    disk.set(0.0, "full")

    assert gate.publish(by("admin", 10**6), 0) is None


@pytest.mark.seed("X-07")
def test_an_observed_quota_is_recorded_and_charged_for_what_it_would_have_let_pass(lab: PolicyLab) -> None:
    [gate] = gates(lab, {EACH: 1000, f"mode.{EACH}": "observe"}, "/default/orders")
    for _ in range(3):
        assert gate.publish(by("a", 600), 0) is None

    assert gate.state.violations == {(EACH, "would_delay", "limit_reached"): 2}
    assert gate.publish(by("a", 400), 0) is None
    assert gate.state.observed == 2


@pytest.mark.parametrize("names", [TOGETHER, BY_PRINCIPAL])
@pytest.mark.parametrize("is_first", [True, False])
def test_what_one_topic_observes_changes_no_quota_of_others(
    lab: PolicyLab, names: tuple[str, str], is_first: bool
) -> None:
    messages, nbytes = names
    quota: dict[str, PolicyValue] = {messages: 100, nbytes: 1000}
    on_trial = {**quota, f"mode.{nbytes}": "observe"}
    if is_first:
        trial = lab.gate(on_trial, topic="/default/trial")
        assert trial.publish(by("a", 5000), 0) is None
    orders = lab.gate(quota)
    assert orders.publish(by("a", 600), 0) is None
    trial = lab.gate(on_trial, topic="/default/trial")
    assert all(trial.publish(by("a", 5000), 0) is None for _ in range(2))

    assert orders.publish(by("a", 400), 0) is None
    assert verdict(orders.publish(by("a", 1), 0)) == (Action.DELAY, nbytes, Outcome.LIMIT_REACHED)
    assert trial.state.violations == {(nbytes, "would_delay", "limit_reached"): 1 + is_first}


@pytest.mark.parametrize("names", [TOGETHER, BY_PRINCIPAL])
def test_a_topic_that_observes_half_a_quota_is_held_to_the_other_half(
    lab: PolicyLab, names: tuple[str, str]
) -> None:
    messages, nbytes = names
    quota: dict[str, PolicyValue] = {messages: 3, nbytes: 1000}
    whole = lab.gate({**quota, f"mode.{messages}": "observe", f"mode.{nbytes}": "observe"})
    half = lab.gate({**quota, f"mode.{nbytes}": "observe"}, topic="/default/trial")

    assert [verdict(half.publish(by("a", 5000), 0)) for _ in range(4)] == [
        *[None] * 3,
        (Action.DELAY, messages, Outcome.LIMIT_REACHED),
    ]
    assert all(whole.publish(by("a", 1), 0) is None for _ in range(5))
    assert whole.state.violations == {(messages, "would_delay", "limit_reached"): 2}


def test_an_observed_quota_that_is_not_set_leaves_the_bucket_of_the_other_half(lab: PolicyLab) -> None:
    orders = lab.gate({ALL: 1000})
    trial = lab.gate({ALL: 1000, "mode.publish_quota": "observe"}, topic="/default/trial")
    assert trial.publish(by("a", 600), 0) is None
    assert orders.publish(by("a", 400), 0) is None

    assert verdict(trial.publish(by("a", 1), 0)) == (Action.DELAY, ALL, Outcome.LIMIT_REACHED)


@pytest.mark.seed("S4-002", "S4-004", "X-04")
@pytest.mark.parametrize(("limit", "who"), [(RATE, "topic"), (ALL, "all principals"), (EACH, "principal a")])
def test_a_factor_leaves_its_share_of_each_quota(lab: PolicyLab, disk: Factor, limit: str, who: str) -> None:
    [gate] = gates(lab, {limit: 1000}, "/default/orders")
    disk.set(0.25, "volume 1 is 80 % full")
    assert gate.publish(by("a", 250), 0) is None
    op = by("a", 10)

    held = gate.publish(op, 0)

    assert verdict(held) == (Action.DELAY, "disk", Outcome.LIMIT_REACHED)
    assert held is not None
    assert (held.factor, held.reasons[0].limit) == (0.25, 250)
    assert f"reduced to 25% by disk for {who}" in held.text
    assert held.delay_ns == pytest.approx(40 * MS, abs=2)
    assert gate.publish(op, 40 * MS + 2) is None


@pytest.mark.seed("S4-002", "X-01")
def test_at_0_nothing_passes_and_afterwards_everything_at_once(lab: PolicyLab, disk: Factor) -> None:
    [gate] = gates(lab, {}, "/default/orders")
    assert gate.publish(by("a", 10**6), 0) is None
    disk.set(0.0, "volume 1 is full")
    op = by("a")

    held = gate.publish(op, 1)

    assert verdict(held) == (Action.DELAY, "disk", Outcome.PRECONDITION)
    assert held is not None
    assert (held.factor, held.delay_ns <= LONGEST_WAIT_NS) == (0.0, True)
    assert gate.publish(op, SECOND_NS) is not None
    disk.set(1.0, "")
    assert gate.publish(op, SECOND_NS) is None
    assert op.waiter is None
    assert gate.state.delayed == 1


def test_a_paused_producer_is_refused_at_once_where_the_broker_does_so(lab: PolicyLab, disk: Factor) -> None:
    assert lab.context is not None
    lab.context.config.refuses_paused_producers = True
    [gate] = gates(lab, {}, "/default/orders")
    attach = Operation(OperationKind.ATTACH_PRODUCER, "/default/orders", client="a", producer="p")
    disk.set(0.5, "")
    assert gate.decide(attach, 0) is None
    gate.detach(attach)
    disk.set(0.0, "full")

    assert verdict(gate.decide(attach, 0)) == (Action.REJECT, "disk", Outcome.PRECONDITION)
    lab.context.config.refuses_paused_producers = False
    [gate] = gates(lab, {}, "/default/orders")
    assert gate.decide(attach, 0) is None


@pytest.mark.seed("S5-037", "S5-083", "X-04")
def test_releasing_one_reason_never_releases_another(lab: PolicyLab, disk: Factor) -> None:
    other = Factor("memory", "")
    assert lab.context is not None
    lab.context.add([other])
    [gate] = gates(lab, {RATE: 1000}, "/default/orders")
    disk.set(0.5, "")
    other.set(0.1, "")
    assert gate.publish(by("a", 100), 0) is None
    op = by("a", 100)
    assert verdict(gate.publish(op, 0)) == (Action.DELAY, "memory", Outcome.LIMIT_REACHED)

    other.set(1.0, "")
    assert gate.publish(op, 1) is None
    assert gate.publish(by("a", 300), 2) is None
    held = gate.publish(op, 3)
    assert verdict(held) == (Action.DELAY, "disk", Outcome.LIMIT_REACHED)
    disk.set(1.0, "")
    assert gate.publish(op, 4) is None
    assert verdict(gate.publish(by("a", 500), 5)) == (Action.DELAY, RATE, Outcome.LIMIT_REACHED)

    other.set(0.0, "")
    disk.set(0.0, "")
    disk.set(1.0, "")
    assert verdict(gate.publish(by("a", 1), 10 * SECOND_NS)) == (
        Action.DELAY,
        "memory",
        Outcome.PRECONDITION,
    )


def test_what_is_given_up_is_charged_to_nothing(lab: PolicyLab, disk: Factor) -> None:
    [gate] = gates(lab, {RATE: 1000, ALL: 1000, EACH: 500}, "/default/orders")
    disk.set(0.5, "")
    assert gate.publish(by("a", 250), 0) is None
    given_up = [by("a", 300) for _ in range(5)]
    for op in given_up:
        assert gate.publish(op, 0) is not None
    for op in given_up:
        gate.abandon(op, 0)

    # A full bucket of the principal's reduced quota after one second, of all others with what was charged.
    assert gate.publish(by("a", 250), SECOND_NS) is None
    assert verdict(gate.publish(by("a", 10), SECOND_NS)) == (Action.DELAY, "disk", Outcome.LIMIT_REACHED)


@pytest.mark.seed("S5-084")
def test_who_waits_for_his_own_quota_does_not_slow_down_others_of_his_topic(lab: PolicyLab) -> None:
    [gate] = gates(lab, {RATE: 10_000, EACH: 1000}, "/default/orders")
    assert gate.publish(by("a", 1000), 0) is None
    slow = [by("a", 500) for _ in range(20)]
    for op in slow:
        assert gate.publish(op, 0) is not None

    assert all(gate.publish(by(f"b{number}", 400), 0) is None for number in range(20))


@pytest.mark.seed("X-07")
def test_an_observed_factor_records_and_applies_nothing(lab: PolicyLab, disk: Factor) -> None:
    [gate] = gates(lab, {RATE: 1000, "mode.disk": "observe"}, "/default/orders")
    disk.set(0.0, "full")
    assert gate.publish(by("a", 100), 0) is None
    disk.set(0.1, "")
    assert gate.publish(by("a", 90), 1) is None
    assert gate.publish(by("a", 100), 2) is None

    assert gate.state.violations == {
        ("disk", "would_delay", "precondition"): 1,
        ("disk", "would_delay", "limit_reached"): 1,
    }
    assert [decision.factor for decision in lab.sink.decisions] == [0.0, 0.1]


def test_a_rate_that_is_only_observed_is_nothing_to_take_a_share_of(lab: PolicyLab, disk: Factor) -> None:
    [gate] = gates(lab, {RATE: 100, f"mode.{RATE}": "observe"}, "/default/orders")
    disk.set(0.1, "")

    assert all(gate.publish(by("a", 100), 0) is None for _ in range(5))
    assert {policy for policy, _, _ in gate.state.violations} == {RATE}


def test_buckets_are_bounded_and_those_in_use_are_kept_before_those_at_rest() -> None:
    shares = Shares("publish", most=4)
    for name in "abcd":
        shares.get(name, Quota(bytes_per_s=100), 1.0, 0)
    shares.get("a", Quota(bytes_per_s=100), 1.0, 0).queue.bucket.charge(0, 50, 0)
    shares.get("b", Quota(bytes_per_s=100), 1.0, 0).queue.bucket.charge(0, 50, 0)

    for name in "efghi":
        shares.get(name, Quota(bytes_per_s=100), 1.0, 0)

    assert len(shares) == 4
    assert shares.get("a", Quota(bytes_per_s=100), 1.0, 0).queue.bucket.balance(0)[1] == 50


def test_a_bucket_that_was_forgotten_while_it_is_used_is_not_made_twice() -> None:
    """Topics that come later would else publish the quota of all once more."""
    shares = Shares("publish", most=1)
    of_all = shares.get("of all", Quota(bytes_per_s=100), 1.0, 0)
    for name in "ab":
        shares.get(name, Quota(bytes_per_s=100), 1.0, 0)
    of_all.queue.bucket.charge(0, 70, 0)

    again = shares.get("of all", Quota(bytes_per_s=50), 1.0, 0)

    assert again is of_all
    assert again.queue.bucket.balance(0)[1] == 30
    assert len(shares) == 1


def test_a_bucket_in_debt_is_not_made_anew_while_others_are_used() -> None:
    shares = Shares("publish", most=2)
    for name in "abc":
        shares.get(name, Quota(bytes_per_s=100), 1.0, 0).queue.bucket.charge(0, 1000, 0)

    assert shares.get("a", Quota(bytes_per_s=100), 1.0, 0).queue.bucket.balance(0)[1] == -900


def test_a_bucket_that_an_operation_waits_for_is_not_made_anew_while_others_are_used() -> None:
    shares = Shares("publish", most=2)
    held = by("a", 100)
    share = shares.get("a", Quota(bytes_per_s=100), 1.0, 0)
    share.queue.bucket.charge(0, 100, 0)
    assert share.queue.ready(held, 0)
    del share
    for name in "bcd":
        shares.get(name, Quota(bytes_per_s=100), 1.0, 0).queue.bucket.charge(0, 1, 0)

    again = shares.get("a", Quota(bytes_per_s=100), 1.0, 0).queue

    assert again.waiting == 1
    assert again.ready(by("a", 100), 0)


def test_buckets_that_are_all_in_debt_are_bounded() -> None:
    shares = Shares("publish", most=4)
    for number in range(100):
        shares.get(str(number), Quota(bytes_per_s=100), 1.0, 0).queue.bucket.charge(0, 1000, 0)
    assert len(shares) == 8
    for number in range(100, 110):
        shares.get(str(number), Quota(bytes_per_s=100), 1.0, 11 * SECOND_NS)
    assert len(shares) == 4


# -- any play of factors, principals and topics -----------------------------------------------------------

PRINCIPALS = ("a", "b")
TOPICS = ("/default/one", "/default/two")


@dataclass
class Play:
    """Producers that publish all they may, while factors change."""

    limits: dict[str, PolicyValue]
    changes: Sequence[tuple[int, int, float]]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        self.lab = PolicyLab()
        self.lab.context = ManualContext(values=dict(self.limits))
        self.factors = [Factor("disk", ""), Factor("memory", "")]
        self.lab.context.add(self.factors)
        self.gates = dict(zip(TOPICS, gates(self.lab, self.limits, *TOPICS), strict=True))
        self.admitted: list[tuple[int, str, str, int]] = []
        self.values: list[list[tuple[int, float]]] = [[(0, 1.0)], [(0, 1.0)]]

    def run(self, after_ns: int) -> None:
        ops = [
            by(principal, size, topic) for principal in PRINCIPALS for topic in TOPICS for size in self.sizes
        ]
        events = [(0, number, None) for number in range(len(ops))]
        now_ns = 0
        turns: list[tuple[int, int, tuple[int, float] | None]] = list(events)
        for step_ms, factor, value in self.changes:
            now_ns += step_ms * MS
            turns.append((now_ns, -1, (factor, value)))
        turns += [(now_ns + MS, -1, (factor, 1.0)) for factor in range(2)]
        self.released_ns = now_ns + MS
        heapq.heapify(turns)
        while turns[0][0] < self.released_ns + after_ns:
            now_ns, number, change = heapq.heappop(turns)
            if change is not None:
                self.factors[change[0]].set(change[1], "")
                self.values[change[0]].append((now_ns, change[1]))
                continue
            op = ops[number]
            decision = self.gates[op.topic].publish(op, now_ns)
            if decision is None:
                assert op.waiter is None
                self.admitted.append((now_ns, op.principal, op.topic, op.bytes))
            heapq.heappush(turns, (now_ns + self._wait(decision), number, None))

    def _wait(self, decision: Decision | None) -> int:
        if decision is None:
            return 1000
        assert decision.action is Action.DELAY
        assert 0 < decision.delay_ns <= LONGEST_WAIT_NS
        return decision.delay_ns + MS

    def check(self, principal: str | None, topic: str | None, rate: float) -> None:
        """In every window: what the rate allows, and what each factor leaves of it while it restricts."""
        passed = [
            (at, nbytes)
            for at, who, where, nbytes in self.admitted
            if principal in (None, who) and topic in (None, where)
        ]
        largest = max(self.sizes)
        total, lowest = 0, 0.0
        for at, nbytes in passed:
            lowest = min(lowest, total - rate * at / SECOND_NS)
            total += nbytes
            assert total - rate * at / SECOND_NS - lowest <= max(rate, largest) + 1e-3
        for values in self.values:
            for first, (begin, _) in enumerate(passed):
                total = 0
                for at, nbytes in passed[first:]:
                    total += nbytes
                    integral, least, most = _integral(values, begin, at)
                    if most == 1.0:  # released in between: this factor says nothing of such a window
                        break
                    # A need above the bucket passes when that is full, also when it has shrunk.
                    debt = max(0.0, largest - rate * least)
                    assert total <= rate * integral + rate * most + debt + 1e-3


def _pieces(values: Sequence[tuple[int, float]], begin: int, end: int) -> list[tuple[int, float]]:
    later = [*values, (2**62, 1.0)]
    return [
        (max(0, min(end, until) - max(begin, since)), value)
        for (since, value), (until, _) in pairwise(later)
        if until >= begin and since <= end
    ]


def _integral(values: Sequence[tuple[int, float]], begin: int, end: int) -> tuple[float, float, float]:
    """Seconds that count, the smallest value above 0, and the largest."""
    pieces = _pieces(values, begin, end)
    seconds = sum(lasting * value for lasting, value in pieces) / SECOND_NS
    above = [value for _, value in pieces if value]
    return seconds, min(above, default=0.0), max(value for _, value in pieces)


@pytest.mark.seed("S4-002", "S5-037", "X-04")
@settings(max_examples=150, deadline=None)
@given(
    rate=st.integers(500, 2000),
    together=st.integers(500, 3000),
    each=st.integers(500, 2000),
    changes=st.lists(
        st.tuples(st.integers(0, 700), st.integers(0, 1), st.sampled_from([0.0, 0.1, 0.5, 0.8, 1.0])),
        max_size=8,
    ),
    sizes=st.lists(st.integers(100, 400), min_size=1, max_size=2),
)
def test_every_limit_holds_in_every_window_and_no_operation_starves(
    rate: int, together: int, each: int, changes: Sequence[tuple[int, int, float]], sizes: Sequence[int]
) -> None:
    play = Play({RATE: rate, ALL: together, EACH: each}, changes, sizes)

    play.run(after_ns=12 * SECOND_NS)

    for topic in TOPICS:
        play.check(None, topic, rate)
    for principal in PRINCIPALS:
        play.check(principal, None, each)
    play.check(None, None, together)
    for paused_from, until in _pauses(play):
        assert not [at for at, *_ in play.admitted if paused_from <= at < until]
    last = {(who, where) for at, who, where, _ in play.admitted if at > play.released_ns}
    assert last == {(who, where) for who in PRINCIPALS for where in TOPICS}
    assert len(play.lab.faults.counts) == 0


def _pauses(play: Play) -> list[tuple[int, int]]:
    return [
        (since, until)
        for values in play.values
        for (since, value), (until, _) in pairwise(values)
        if value == 0 and until > since
    ]


def test_a_ramp_is_met_within_2_percent() -> None:
    lab = PolicyLab()
    lab.context = ManualContext()
    factor = Factor("disk", "")
    lab.context.add([factor])
    [gate] = gates(lab, {RATE: 100_000}, "/default/orders")
    factor.set(0.999, "")
    ops = [by("a", 700) for _ in range(4)]
    turns = [(0, number) for number in range(len(ops))]
    for step in range(10):
        factor.set(1 - (step + 1) / 12, "")
        passed, end_ns = 0, (step + 1) * 3 * SECOND_NS
        while turns[0][0] < end_ns:
            now_ns, number = heapq.heappop(turns)
            decision = gate.publish(ops[number], now_ns)
            if decision is None and now_ns > end_ns - 2 * SECOND_NS:  # the burst is over by then
                passed += ops[number].bytes
            heapq.heappush(turns, (now_ns + (decision.delay_ns if decision else 1000), number))
        assert passed == pytest.approx(2 * 100_000 * factor.value, rel=0.02)
