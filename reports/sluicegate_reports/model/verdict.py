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
    NOT_REACHED = "not_reached"
    """Clients never came up to the limit, so it had nothing to do."""
    NOT_PLAYED = "not_played"
    """The arm did not take part, or not in this; the text says why."""
    MISSING = "missing"
    """It could not be measured; the text says why."""
    DISPUTED = "disputed"
    """The gate's log and its clients contradict each other, so one of them is wrong."""
    OFF = "off"
    """It differs by more than the bound."""

    @property
    def text(self) -> str:
        """The verdict in words."""
        return "within bound" if self is Verdict.WITHIN else self.value.replace("_", " ")


UNMEASURED = frozenset({Verdict.NOT_REACHED, Verdict.NOT_PLAYED, Verdict.MISSING})
"""There is no figure."""


MARKS = {
    Verdict.NOT_APPLICABLE: "–",  # noqa: RUF001 - a dash is meant
    Verdict.EXACT: "✓",
    Verdict.WITHIN: "≈",
    Verdict.UNCONFIRMED: "○",
    Verdict.NOT_REACHED: "↓",
    Verdict.NOT_PLAYED: "·",
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
