"""What the first minute claims is judged by ratios of its own figures."""

from typing import Any

import pytest
from tests.demo.first_minute.plays import WAIT_S, played

from sluicegate.demo.first_minute.judging import judge, ms


def test_a_play_that_shows_it_has_no_problem() -> None:
    found = judge(played(), 4, WAIT_S)
    assert found.problems == ()
    assert (found.before.p99, found.during.p99, found.after.p99) == (0.005, 1.0, 0.01)
    assert (found.rate_during, found.rate_after) == (20.0, 4.0)


def test_a_slow_machine_is_judged_by_the_same_ratios() -> None:
    assert judge(played(alone=0.9, beside=8.0, after=1.5), 4, WAIT_S).problems == ()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"beside": 0.009}, "did not ruin its neighbour's latency: p99 5.0 ms -> 9.0 ms"),
        ({"after": 0.9}, "the neighbour did not recover: p99 1,000 ms -> 900 ms"),
        ({"passed": 9}, "99 messages of the noisy producer passed, and 52 may"),
        ({"told": ""}, "the noisy producer's client was told nothing"),
    ],
)
def test_what_a_play_does_not_show_is_said(changed: dict[str, Any], problem: str) -> None:
    [found] = judge(played(**changed), 4, WAIT_S).problems
    assert problem in found


def test_an_error_of_the_neighbour_and_too_few_messages_are_problems() -> None:
    record = played()
    record.neighbour = record.neighbour[:210]
    record.take_neighbour([], ["[Error 7] TimedOut"])
    told, few = judge(record, 4, WAIT_S).problems
    assert told == "the neighbour's client was told: [Error 7] TimedOut"
    assert few.endswith("200 before, 0 during and 0 after the noise")


def test_latencies_in_words() -> None:
    assert [ms(value) for value in (0.0, 0.0034, 0.05, 1.2345)] == ["0 ms", "3.4 ms", "50 ms", "1,234 ms"]
