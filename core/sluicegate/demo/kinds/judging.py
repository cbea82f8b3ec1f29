"""How scenes of rates are judged: at most, always; at least, for as long as the gateway held clients back."""

from collections.abc import Sequence

from sluicegate.demo.law import ENOUGH_S, Admitted, Held, Limit
from sluicegate.demo.scene import Observation, Seen, Verdict

IN_FLIGHT = 10
"""Messages that a saturating client has under way at once."""


def by_law(
    seen: Seen,
    limit: Limit,
    admitted: Sequence[Admitted],
    held: Sequence[Held],
    unit: str,
    faults: list[str],
) -> Observation:
    """Hold what the gateway's log says against the law of its limit.

    :param faults: what is wrong already.
    """
    if (surplus := limit.surplus(admitted)) > 0:
        faults.append(f"the gateway admitted {surplus:,.0f} {unit} more than the limit permits")
    waited = limit.waiting(admitted, held)
    if (missing := limit.shortfall(admitted, held, IN_FLIGHT)) > 0:
        faults.append(f"the gateway admitted {missing:,.0f} {unit} less than the limit owes")
    text = f"{seen.text}; clients were held back for {waited:.1f} s"
    if faults:
        return Observation(Verdict.DIFFERENT, f"{text}; {'; '.join(faults)}", seen.error)
    if waited < ENOUGH_S:
        return Observation(Verdict.UNSATURATED, f"{text}: they are too slow here to come up to the limit")
    return Observation(Verdict.RIGHT, text, seen.error)


def worst(found: Sequence[Observation]) -> Observation:
    """Of several observations the one that says most against the policy."""
    order = (Verdict.DIFFERENT, Verdict.UNSATURATED, Verdict.RIGHT)
    return min(found, key=lambda each: order.index(each.verdict))
