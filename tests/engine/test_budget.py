"""The byte budget of a gate."""

from collections.abc import Callable

import pytest

from sluicegate.engine.budget import Budget


def test_takes_up_to_the_limit_and_no_more() -> None:
    budget = Budget(100)

    assert budget.take(60) is True
    assert budget.take(41) is False
    assert budget.take(40) is True
    assert budget.used == 100
    budget.give(60)
    assert budget.used == 40
    assert budget.take(60) is True


def test_zero_is_unlimited() -> None:
    budget = Budget(0)

    assert budget.take(10**12) is True
    assert budget.used == 10**12


def test_giving_back_too_much_is_a_bug() -> None:
    budget = Budget(10)
    budget.take(3)

    with pytest.raises(ValueError, match="4 bytes given back, but only 3 are taken"):
        budget.give(4)


def test_bytes_already_in_memory_are_charged_beyond_the_limit() -> None:
    budget = Budget(100)

    budget.charge(150)
    assert budget.used == 150
    assert budget.take(1) is False
    budget.give(150)
    assert budget.take(100) is True


def test_bytes_used_by_others_leave_less() -> None:
    budget = Budget(100)

    budget.others = 70
    assert budget.take(31) is False
    assert budget.take(30) is True


def test_a_nearly_full_budget_reports_pressure() -> None:
    budget = Budget(800)
    told: list[int] = []
    budget.on_pressure = lambda: told.append(budget.used)

    budget.take(700)
    assert told == []
    budget.take(1)
    budget.charge(10)
    budget.take(1000)
    assert told == [701, 711, 711]
    budget.take(1000, spare=200)  # may wait: others need not be closed for it
    assert len(told) == 3


def test_an_unlimited_budget_is_never_under_pressure() -> None:
    budget = Budget(0)
    told: list[int] = []
    budget.on_pressure = lambda: told.append(budget.used)

    budget.take(10**12)
    budget.charge(10**12)
    assert told == []


def test_a_limit_of_one_byte_holds() -> None:
    budget = Budget(1)

    assert budget.take(2) is False
    assert budget.take(1) is True


def test_spared_bytes_are_left_for_others() -> None:
    budget = Budget(100)

    assert budget.take(81, spare=20) is False
    assert budget.take(80, spare=20) is True
    assert budget.take(20) is True


@pytest.mark.parametrize("grow", [Budget.take, Budget.charge])
@pytest.mark.parametrize("others", [0, 30])
def test_pressure_begins_above_the_mark_with_what_others_use(
    grow: Callable[[Budget, int], object], others: int
) -> None:
    budget = Budget(100)
    budget.others = others
    told: list[int] = []
    budget.on_pressure = lambda: told.append(budget.used)

    assert budget.mark == 88  # an eighth of 100 is 12 whole bytes
    grow(budget, 88 - others)
    assert told == []
    grow(budget, 1)
    assert told == [89 - others]


def test_a_budget_of_one_byte_is_under_pressure_beyond_it() -> None:
    budget = Budget(1)
    told: list[int] = []
    budget.on_pressure = lambda: told.append(budget.used)

    budget.charge(2)

    assert told == [2]
