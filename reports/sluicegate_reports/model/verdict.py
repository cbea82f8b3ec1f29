"""Verdicts: how closely an arm follows a policy, and how that is said."""

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """How closely an arm follows a policy, from best to worst."""

    NOT_APPLICABLE = "not_applicable"
    """The system has no such policy at this door, and says so in docs/capabilities.md."""
    EXACT = "exact"
    """The measurement matches the policy to the message."""
    WITHIN = "within"
    """It differs by no more than the stated bound."""
    UNCONFIRMED = "unconfirmed"
    """The gate's own log shows that it was kept, and no client confirms it."""
    MISSING = "missing"
    """It could not be measured; the text says why."""
    DISPUTED = "disputed"
    """The gate's log and its clients contradict each other, so one of them is wrong."""
    OFF = "off"
    """It differs by more than the bound."""

    @property
    def text(self) -> str:
        """The verdict in words."""
        return _VERDICTS[self]


_VERDICTS = {
    Verdict.NOT_APPLICABLE: "not applicable",
    Verdict.EXACT: "exact",
    Verdict.WITHIN: "within bound",
    Verdict.UNCONFIRMED: "unconfirmed",
    Verdict.MISSING: "missing",
    Verdict.DISPUTED: "disputed",
    Verdict.OFF: "off",
}


MARKS = {
    Verdict.NOT_APPLICABLE: "–",  # noqa: RUF001 - a dash is meant
    Verdict.EXACT: "✓",
    Verdict.WITHIN: "≈",
    Verdict.UNCONFIRMED: "○",
    Verdict.MISSING: "?",
    Verdict.DISPUTED: "≠",
    Verdict.OFF: "✕",
}
"""A sign beside each verdict's text, so that colour is never the only difference."""


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict over several: the last one in the order of `Verdict`.

    :return: MISSING for none at all, since then nothing was compared.
    """
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.MISSING)
