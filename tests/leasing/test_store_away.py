"""What gates do while the store does not answer, and how they come back."""

import pytest
from tests.engine.test_bucket import worst_window
from tests.leasing.fleet import LEASE_NS, MEMBER_NS, MS, Fleet, finished
from tests.waiting import until

from sluicegate.budgets import BudgetStoreError
from sluicegate.config.budgets_section import OnBudgetLost
from sluicegate.config.models import Budgets
from sluicegate.engine.bucket import SECOND_NS
from sluicegate.leasing.away import Away
from sluicegate.leasing.joining import holder_of

RATE = {"max_publish_rate": "1000/s"}


def _busy(fleet: Fleet) -> None:
    for who in fleet.members:
        for _ in range(5 - len(who.held)):
            fleet.offer(who)


def _offer_five(fleet: Fleet) -> None:
    fleet.offer(fleet.members[0], 5)


def _lose(fleet: Fleet, what: str = "request") -> None:
    for who in fleet.members:
        who.network.failing = what


def test_one_lost_call_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet(RATE)
    fleet.pass_time(500 * MS, each_step=lambda: _busy(fleet))
    _lose(fleet)
    fleet.pass_time(60 * MS)
    _lose(fleet, "")
    fleet.pass_time(500 * MS)
    assert not caplog.records
    assert fleet.members[0].holder.snapshot()["lost_seconds"] == 0


def test_each_spends_its_share_until_the_store_answers(caplog: pytest.LogCaptureFixture) -> None:
    fleet = Fleet(RATE, gateways=4)
    fleet.pass_time(MEMBER_NS + 1_000 * MS, each_step=lambda: _busy(fleet))
    _lose(fleet)
    fleet.pass_time(1_000 * MS, each_step=lambda: _busy(fleet))
    since_ns = fleet.now_ns
    fleet.pass_time(2_000 * MS, each_step=lambda: _busy(fleet))

    assert 1_900 <= fleet.passed(since_ns) <= 2_100
    holder = fleet.members[0].holder
    assert holder.snapshot()["up"] == 0
    assert holder.standing() == {
        "members": 4,
        "away": True,
        "spends": "share",
        "error": "the request was lost",
    }
    assert [record.getMessage() for record in caplog.records] == [
        "the budget store is away: the request was lost; this gateway goes on with a share of each shared "
        "limit until it answers"
    ] * 4

    _lose(fleet, "")
    fleet.pass_time(1_500 * MS, each_step=lambda: _busy(fleet))
    since_ns = fleet.now_ns
    fleet.pass_time(2_000 * MS, each_step=lambda: _busy(fleet))
    assert 1_980 <= fleet.passed(since_ns) <= 2_020
    assert worst_window(fleet.admitted, 1000) <= 1000
    assert not holder.standing()["away"]


def test_the_shares_of_gateways_that_start_as_the_store_ends_are_not_above_the_limit() -> None:
    """The first hears that it is alone, the next that there are two: their shares would be 1 + 1/2 + 1/3."""
    fleet = Fleet(RATE)
    fleet.pass_time(10 * MS, each_step=lambda: _busy(fleet))
    for _ in range(2):
        fleet.start()
        fleet.pass_time(10 * MS, each_step=lambda: _busy(fleet))
    _lose(fleet)
    fleet.pass_time(1_000 * MS, each_step=lambda: _busy(fleet))
    since_ns = fleet.now_ns
    fleet.pass_time(5_000 * MS, each_step=lambda: _busy(fleet))
    assert fleet.passed(since_ns) <= 5_000
    assert worst_window(fleet.admitted, 1000) <= 1000


def test_a_gateway_that_comes_back_is_known_to_all_before_it_takes_a_share() -> None:
    away = Away("share", LEASE_NS, MEMBER_NS, 0)
    for second in range(4):
        assert away.sharing == 0
        away.joined(2, second * SECOND_NS)
    assert away.sharing == 2
    away.joined(2, 20 * SECOND_NS)
    assert away.sharing == 0, "the others have counted without it meanwhile"
    for second in range(21, 24):
        away.joined(3, second * SECOND_NS)
    assert away.sharing == 3


def test_a_gateway_that_never_heard_of_others_pauses() -> None:
    fleet = Fleet(RATE)
    _lose(fleet)
    fleet.pass_time(1_000 * MS, each_step=lambda: _busy(fleet))
    assert fleet.passed() == 0

    _lose(fleet, "")
    fleet.pass_time(1_100 * MS)
    assert fleet.passed() == 5


@pytest.mark.parametrize(("on_lost", "passes"), [("open", True), ("pause", False)])
def test_open_and_pause(on_lost: OnBudgetLost, passes: bool) -> None:
    fleet = Fleet(RATE, on_lost=on_lost)
    fleet.pass_time(2_000 * MS, each_step=lambda: _busy(fleet))
    _lose(fleet)
    fleet.pass_time(LEASE_NS + 200 * MS, each_step=lambda: _busy(fleet))
    since_ns = fleet.now_ns
    fleet.pass_time(1_000 * MS, each_step=lambda: _offer_five(fleet))
    assert (fleet.passed(since_ns) > 2_000) is passes
    if not passes:
        assert fleet.passed(since_ns) == 0

    _lose(fleet, "")
    fleet.members[0].held.clear()
    fleet.pass_time(500 * MS)
    since_ns = fleet.now_ns
    fleet.pass_time(1_000 * MS, each_step=lambda: _offer_five(fleet))
    assert fleet.passed(since_ns) <= 2_000


def test_a_store_that_cannot_be_opened_is_away() -> None:
    def open_store(settings: Budgets, holder: str) -> object:
        raise BudgetStoreError("pip install 'sluicegate[budgets]'")

    holder = holder_of(Budgets(url="redis://h", lease=40, timeout=10), "b", open_store, lambda: "1")  # type: ignore[arg-type]

    def is_away() -> object:
        finished(holder.join())
        return holder.standing()["away"]

    until(is_away)
    assert holder.standing()["error"] == "pip install 'sluicegate[budgets]'"


def test_a_store_that_is_slow_at_the_start_is_not_away_for_a_lease(caplog: pytest.LogCaptureFixture) -> None:
    away = Away("share", LEASE_NS, MEMBER_NS, 0)
    away.failed("no answer within 20 ms", LEASE_NS - 1)
    away.heard(LEASE_NS)
    assert not caplog.records


def test_each_error_of_an_outage_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    away = Away("open", LEASE_NS, MEMBER_NS, 0)
    for second in range(1, 9):
        away.failed("no answer within 20 ms", second * SECOND_NS)
        away.failed("the server's memory is full", second * SECOND_NS)
    assert [record.getMessage() for record in caplog.records] == [
        "the budget store is away: no answer within 20 ms; this gateway goes on without the shared limits "
        "until it answers",
        "the budget store is still away: the server's memory is full",
    ]
    caplog.clear()
    away.heard(9 * SECOND_NS)
    away.failed("the server's memory is full", 10 * SECOND_NS)
    assert [record.getMessage().partition(",")[0].partition(";")[0] for record in caplog.records] == [
        "the budget store answers again",
        "the budget store is away: the server's memory is full",
    ]
