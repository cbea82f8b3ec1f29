"""Two processes of one name say so once, in whichever order they join."""

from functools import partial

import pytest
from tests.leasing.fleet import MS, Fleet, finished

from sluicegate.budgets import Member


def test_one_that_joins_twice_between_two_joins_of_the_other_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = Fleet({}, gateways=2)
    for number, each in enumerate(fleet.members):
        each.holder._member = partial(Member, "same", "broker/0", str(number))
    one, two = (each.holder for each in fleet.members)
    for joins in (one, two, one, two, one, one, two, one, two, two, one, two):
        fleet.now_ns += 500 * MS
        finished(joins.join())
    assert len(caplog.messages) == 2
    assert (one.has_name, two.has_name) == (False, False)
    finished(two.join())
    fleet.now_ns += 10_001 * MS
    finished(two.join())
    assert (one.has_name, two.has_name) == (False, True)
