"""The walks of one message grow no longer than they were."""

import sys

import pytest
from tests.walk.cases import CASES
from tests.walk.figures import recorded, walks_of
from tests.walk.recording import Stop, Walk, record

from sluicegate.engine.budget import Budget
from sluicegate.sessions.timers import Timers


@pytest.mark.parametrize("case", CASES)
def test_a_message_passes_through_no_more_files_than_recorded(case: str) -> None:
    for name, walk in walks_of(case).items():
        files, moves = recorded()[name].at_most
        way = "\n".join(f"{stop.module}: {stop.function}" for stop in walk.stops)
        assert walk.files <= files, f"{name}: {walk.files} files, recorded {files}\n{way}"
        assert walk.moves <= moves, f"{name}: {walk.moves} moves, recorded {moves}\n{way}"


def test_every_recorded_figure_has_its_walk() -> None:
    assert set(recorded()) == {name for case in CASES for name in walks_of(case)}


def test_a_walk_counts_files_once_and_each_change_of_file() -> None:
    pending = Timers()

    def call() -> None:
        pending.at(0, lambda now_ns: None)
        budget = Budget(10)
        budget.take(1)
        assert pending.due_ns == 0
        budget.give(1)

    walk, result = record(call)
    assert result is None
    timers, budget = Timers.__module__, Budget.__module__
    assert walk.stops == (
        Stop(timers, "Timers.at"),
        Stop(budget, "Budget.__init__"),
        Stop(timers, "Timers.due_ns"),
        Stop(budget, "Budget.give"),
    )
    assert (walk.files, walk.moves) == (2, 3)
    assert sys.getprofile() is None


def test_two_walks_in_one_do_not_count_the_file_between_them_twice() -> None:
    first = Walk((Stop("a", "f"), Stop("b", "g")))
    assert first + Walk((Stop("b", "h"), Stop("a", "f"))) == Walk((*first.stops, Stop("a", "f")))
    assert first + first == Walk(first.stops * 2)
    assert first + Walk(()) == first
