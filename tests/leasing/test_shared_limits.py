"""Gates that share a limit: how soon the first message passes, how demand is followed, what is given back."""

from random import Random

import pytest
from tests.engine.test_bucket import worst_window
from tests.leasing.fleet import LEASE_NS, MS, Fleet

from sluicegate.budgets import Limit
from sluicegate.model import Action, OperationKind, Outcome

RATE = {"max_publish_rate": "1000/s"}


@pytest.mark.parametrize("on_limit", ["delay", "reject"])
def test_the_first_message_waits_for_one_call_only(on_limit: str) -> None:
    fleet = Fleet({**RATE, "on_limit.max_publish_rate": on_limit})
    gateway = fleet.members[0]

    decision = fleet.offer(gateway)
    assert decision is not None
    assert (decision.action, decision.reasons[0].outcome) == (Action.DELAY, Outcome.PRECONDITION)
    assert "shared limit max_publish_rate" in decision.reasons[0].text

    fleet.pass_time(3 * MS)
    assert (fleet.passed(), gateway.network.calls) == (1, 1)


def test_a_trickle_never_waits_again() -> None:
    fleet = Fleet(RATE)
    fleet.offer(fleet.members[0])
    for _ in range(20):
        fleet.pass_time(400 * MS)
        assert fleet.offer(fleet.members[0]) is None


@pytest.mark.parametrize("gateways", [1, 3])
def test_traffic_far_below_the_limit_waits_no_more_however_it_varies(gateways: int) -> None:
    fleet, chance = Fleet({"max_publish_rate": "20000/s"}, gateways=gateways), Random(1)

    def offer() -> None:
        for who in fleet.members:
            for _ in range(chance.choice([0, 0, 1, 2])):
                fleet.offer(who)

    fleet.pass_time(1_000 * MS, each_step=offer)
    before = len(fleet.decisions)
    fleet.pass_time(20_000 * MS, each_step=offer)
    assert len(fleet.decisions) == before


def test_an_idle_limit_is_given_back_and_asked_for_no_more() -> None:
    fleet = Fleet(RATE)
    gateway = fleet.members[0]
    fleet.offer(gateway)
    fleet.pass_time(2_000 * MS)
    calls = gateway.network.calls

    fleet.pass_time(5_000 * MS)
    assert gateway.network.calls == calls
    (standing,) = fleet.budgets.standings()
    assert standing.limit == Limit("broker|orders.eu|max_publish_rate|m", 1000, 1000)
    assert standing.leased == 0
    assert gateway.state.is_evictable(fleet.now_ns)


def test_a_busy_limit_that_is_wanted_by_all_is_used_whole() -> None:
    fleet = Fleet(RATE, gateways=3)

    def offer() -> None:
        for who in fleet.members:
            if len(who.held) < 50:
                fleet.offer(who)

    fleet.pass_time(2_000 * MS, each_step=offer)
    since_ns = fleet.now_ns
    fleet.pass_time(3_000 * MS, each_step=offer)

    assert fleet.passed(since_ns) >= 2_970
    assert worst_window(fleet.admitted, 1000) <= 1000


@pytest.mark.parametrize(("messages_a_ms", "calls_a_second"), [(1, 10), (20, 20)])
def test_a_limit_is_leased_seldomer_while_it_holds_nobody_back(
    messages_a_ms: int, calls_a_second: int
) -> None:
    fleet = Fleet({"max_publish_rate": "10000/s"})
    gateway = fleet.members[0]

    def offer() -> None:
        if len(gateway.held) < 100:
            fleet.offer(gateway, messages_a_ms)

    fleet.pass_time(2_000 * MS, each_step=offer)
    before = gateway.network.calls
    fleet.pass_time(1_000 * MS, each_step=offer)
    assert abs(gateway.network.calls - before - calls_a_second) <= 2


@pytest.mark.parametrize("gateways", [1, 2, 4])
def test_a_limit_that_is_far_from_reached_is_leased_least_often(gateways: int) -> None:
    fleet = Fleet({"max_publish_rate": "10000/s"}, gateways=gateways, lease_ns=400 * MS)

    def offer() -> None:
        if fleet.now_ns % (10 * MS) == 0:
            for who in fleet.members:
                fleet.offer(who)

    fleet.pass_time(2_000 * MS, each_step=offer)
    before = [each.network.calls for each in fleet.members]
    fleet.pass_time(2_000 * MS, each_step=offer)
    for each, then in zip(fleet.members, before, strict=True):
        assert 9 <= each.network.calls - then <= 11


@pytest.mark.parametrize("gateways", [1, 2, 4])
def test_a_rise_from_next_to_nothing_to_the_limit_refuses_nobody(gateways: int) -> None:
    fleet = Fleet(
        {"max_publish_rate": "10000/s", "on_limit.max_publish_rate": "reject"},
        gateways=gateways,
        lease_ns=400 * MS,
    )
    messages = 1

    def offer() -> None:
        fleet.offer(fleet.members[0], messages)

    fleet.pass_time(2_000 * MS, each_step=offer)
    before, messages = len(fleet.decisions), 9
    fleet.pass_time(1_000 * MS, each_step=offer)
    refused = [each for each in fleet.decisions[before:] if each.action is not Action.DELAY]
    assert not refused


def test_a_hundred_busy_limits_cost_ten_calls_a_second() -> None:
    fleet = Fleet(RATE)
    gateway = fleet.members[0]
    tokens = gateway.holder.tokens
    buckets = [tokens.bucket(f"limit {number}", 10, 0, 1.0, fleet.now_ns) for number in range(100)]

    def use() -> None:
        for bucket in buckets:
            bucket.take(1, 0, fleet.now_ns)

    fleet.pass_time(1_000 * MS, each_step=use)
    before = gateway.network.calls
    fleet.pass_time(2_000 * MS, each_step=use)
    assert gateway.network.calls - before <= 20


def test_a_message_larger_than_the_burst_passes_once_the_bucket_is_full() -> None:
    fleet = Fleet({"max_publish_rate_bytes": "1000B/s"}, gateways=2)
    other, large = fleet.members
    fleet.offer(other, 1, 500)
    fleet.pass_time(10 * MS)
    fleet.offer(large, 1, 3_000)
    fleet.pass_time(4_000 * MS)
    assert [nbytes for _, nbytes in fleet.admitted_bytes] == [500, 3_000]

    fleet.offer(other, 1, 500)
    fleet.pass_time(5_000 * MS)
    assert worst_window(fleet.admitted_bytes, 1000) <= 3_000


def test_what_a_stopped_process_holds_is_void_once_its_lease_has_ended() -> None:
    fleet = Fleet({**RATE, "on_limit.max_publish_rate": "reject"})
    gateway = fleet.members[0]
    fleet.offer(gateway, 10)
    fleet.pass_time(60 * MS)
    assert fleet.offer(gateway) is None

    fleet.now_ns += LEASE_NS
    decision = fleet.offer(gateway)
    assert decision is not None


def test_dispatch_is_held_for_the_first_call_even_if_it_may_be_dropped() -> None:
    fleet = Fleet({"max_dispatch_rate": "100/s", "on_limit.max_dispatch_rate": "drop"})
    decision = fleet.offer(fleet.members[0], kind=OperationKind.DISPATCH, reliable=False)
    assert decision is not None
    assert decision.action is Action.DELAY
    fleet.pass_time(3 * MS)
    assert fleet.passed() == 1


def test_each_policy_has_a_limit_of_its_own() -> None:
    quotas = {"publish_quota": 50, "principal_publish_quota_bytes": 500, "consume_quota": 20}
    fleet = Fleet({**RATE, **quotas, "max_subscription_dispatch_rate": 10, "connection_rate_limit": 5})
    gateway = fleet.members[0]
    fleet.offer(gateway, 1, 10)
    fleet.offer(gateway, 1, 10, kind=OperationKind.DISPATCH, subscription="s")
    fleet.offer(gateway, 0, 0, kind=OperationKind.ATTACH_PRODUCER, producer="p")
    fleet.pass_time(100 * MS)

    assert [standing.limit.name for standing in fleet.budgets.standings()] == [
        "broker|connection_rate_limit|enforce|m",
        "broker|orders.eu|max_publish_rate|m",
        "broker|orders.eu|s|max_subscription_dispatch_rate|m",
        "broker|share|consume|of all|m",
        "broker|share|publish|of all|m",
        "broker|share|publish|share principal ANONYMOUS|b",
    ]
