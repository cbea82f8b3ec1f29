"""What a thread is busy with, read from its stack."""

import sys
from collections.abc import Mapping
from typing import Any

import pytest

from sluicegate.engine import holders
from sluicegate.engine.holders import OTHER, Holder, holder_of, tell_by


class Work:
    """Two functions, one inside the other, with a sample in the inner one."""

    def outer(self, kind: str) -> Holder:
        return self.inner("inner")

    def inner(self, topic: str) -> Holder:
        return holder_of(sys._getframe())


def names(**told: str) -> Any:
    """What tells the same whatever the variables are."""

    def describe(variables: Mapping[str, Any]) -> Mapping[str, str]:
        return told

    return describe


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "_known", {})


def test_variables_of_registered_functions_tell() -> None:
    tell_by(Work, "outer", lambda variables: {"api": variables["kind"]})
    found = Work().outer("produce")
    assert found == Holder("api produce", "", {"api": "produce"})


def test_the_innermost_function_wins_and_empty_values_do_not_count() -> None:
    tell_by(Work, "outer", names(topic="outer", api="fetch", work="waits"))
    tell_by(Work, "inner", lambda variables: {"topic": variables["topic"], "api": ""})
    found = Work().outer("produce")
    assert found.details == {"topic": "inner", "api": "fetch", "work": "waits"}


@pytest.mark.parametrize(
    ("told", "held_by"),
    [
        ({"work": "w", "api": "a", "plugin": "p", "policy": "o"}, "policy o"),
        ({"work": "w", "api": "a", "plugin": "p"}, "plugin p"),
        ({"work": "w", "api": "a"}, "api a"),
        ({"work": "w", "client": "c"}, "work w"),
        ({"client": "c", "topic": "t"}, OTHER),
    ],
)
def test_a_policy_tells_more_than_a_plugin_an_api_or_other_work(told: dict[str, str], held_by: str) -> None:
    tell_by(Work, "inner", names(**told))
    assert Work().outer("produce").held_by == held_by


def test_a_function_that_cannot_be_described_is_passed_over() -> None:
    tell_by(Work, "inner", lambda variables: {"api": variables["not_there_yet"]})
    tell_by(Work, "outer", names(api="fetch"))
    assert Work().outer("produce").held_by == "api fetch"


def test_the_innermost_function_of_the_product_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Work().inner("t").at == ""
    monkeypatch.setitem(globals(), "__name__", "sluicegate_mine.work")
    assert Work().outer("produce").at == "sluicegate_mine.work.Work.inner"


def test_an_empty_stack_is_attributed_to_other() -> None:
    assert holder_of(None) == Holder(OTHER, "", {})


def test_code_without_a_module_is_no_code_of_the_product() -> None:
    sample = {"holder_of": holder_of, "sys": sys}
    exec("found = holder_of(sys._getframe())", sample)  # its globals have no name
    assert sample["found"] == Holder(OTHER, "", {})


def test_only_methods_of_the_class_itself_can_be_registered() -> None:
    with pytest.raises(KeyError):
        tell_by(Work, "missing", names())
