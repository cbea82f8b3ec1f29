"""The byte budget of a gate."""

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
