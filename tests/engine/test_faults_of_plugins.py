"""Values and exceptions of plugins in texts, whatever they are."""

import pytest

from sluicegate.engine.faults import error_text, several, shown
from sluicegate.model import Action, Decision, Outcome, Reason


async def coroutine() -> None:
    """What an author gives who thinks that checks may wait."""


class Mute:
    """Has no text."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_values_are_shown_shortly() -> None:
    assert shown("x" * 100) == f"'{'x' * 37}...{'x' * 38}'"
    assert "Mute" in shown(Mute())
    assert "int" in shown(10**5_000)  # more digits than Python prints
    assert shown(coroutine()) == "a coroutine (the function must not be async)"


def test_exceptions_are_shown_by_type_and_text() -> None:
    assert error_text(LookupError("x" * 501)) == f"LookupError: {'x' * 500}"
    assert error_text(MuteError()) == "MuteError: (its text cannot be had)"


def test_a_list_is_taken_as_it_is() -> None:
    assert several(None, "hook", int) == []
    assert several((1, 2), "hook", int) == [1, 2]
    assert len(several([1] * 1_000, "hook", int)) == 1_000


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("checks", "hook gave 'checks', expected a list of at most 1000 int objects"),
        (5, "hook gave 5, expected a list of at most 1000 int objects"),
        ([1] * 1_001, "hook gave 1 in its list, expected a list of at most 1000 int objects"),
        ([1, "x"], "hook gave 'x' in its list, expected a list of at most 1000 int objects"),
    ],
    ids=range(4),
)
def test_what_is_no_list_is_named(answer: object, text: str) -> None:
    with pytest.raises(TypeError) as raised:
        several(answer, "hook", int)
    assert str(raised.value) == text


@pytest.mark.parametrize("text", ["", "x" * 4_096, "\u20ac"])
def test_a_reason_has_any_text_that_protocols_carry(text: str) -> None:
    assert Reason("\u20ac", Outcome.INVALID, text, -(1 << 63), 1 << 63).text == text


@pytest.mark.parametrize(
    ("text", "carried"), [("x" * 5_000, "x" * 4_096), ("half \ud800", "half \\ud800")], ids=["long", "half"]
)
def test_a_text_with_names_of_clients_in_it_is_bounded(text: str, carried: str) -> None:
    assert Reason("mine", Outcome.INVALID, text).text == carried


def test_a_wait_of_centuries_is_bounded() -> None:
    reason = Reason("mine", Outcome.LIMIT_REACHED, "no")
    assert Decision(Action.DELAY, (reason,), delay_ns=10**30).delay_ns == 1 << 62
