"""Judges scenes for rates by an upper bound, and by a lower bound while the gateway held clients."""

from collections.abc import Sequence

from sluicegate.demo.law import ENOUGH_S, Admitted, Held, Limit
from sluicegate.demo.scene import Observation, Seen, Verdict

IN_FLIGHT = 10
"""Concurrent messages of a saturating client."""


def by_law(
    seen: Seen,
    limit: Limit,
    admitted: Sequence[Admitted],
    held: Sequence[Held],
    unit: str,
    faults: list[str],
) -> Observation:
    """Compare the decision log with both bounds of a limit.

    :param faults: faults found before.
    """
    if (surplus := limit.surplus(admitted)) > 0:
        faults.append(f"the gateway admitted {surplus:,.0f} {unit} more than the limit permits")
    waited = limit.waiting(admitted, held)
    if (missing := limit.shortfall(admitted, held, IN_FLIGHT)) > 0:
        faults.append(f"the gateway admitted {missing:,.0f} {unit} less than the limit owes")
    text = f"{seen.text}; clients were held back for {waited:.1f} s"
    too_slow = "they are too slow here to reach the limit" if waited < ENOUGH_S else ""
    return judged(text, faults, too_slow, seen.error)


def judged(text: str, faults: Sequence[str], too_slow: str, error: str) -> Observation:
    """The observation with its verdict.

    :param faults: differences from the policy.
    :param too_slow: why the clients did not reach the limit; empty if they did.
    :param error: the client's own error.
    """
    if faults:
        return Observation(Verdict.DIFFERENT, f"{text}; {'; '.join(faults)}", error)
    if too_slow:
        return Observation(Verdict.UNSATURATED, f"{text}: {too_slow}")
    return Observation(Verdict.RIGHT, text, error)


def worst(observations: Sequence[Observation]) -> Observation:
    """The worst of several observations."""
    order = (Verdict.DIFFERENT, Verdict.UNSATURATED, Verdict.RIGHT)
    return min(observations, key=lambda each: order.index(each.verdict))
