"""Totals of each lane by source, for what both sources must agree on."""

from typing import Any

from sluicegate_reports.transforms.packed import Numbers
from sluicegate_reports.transforms.slots import Slots

_SUMS = ("admitted_messages", "refused_messages", "limited", "otherwise", "asked", "answered")


def totals(slots: Slots) -> dict[str, Any]:
    """Sums over a lane.

    :return: `admitted_messages`, `refused_messages`, `largest_messages` and `largest` (at once; None if
        nothing was admitted), `limited`, `otherwise` (rows), `asked` and `answered` (messages, of clients).
    """
    sums = {name: int(getattr(slots, name).sum()) for name in _SUMS}
    return sums | {name: largest(getattr(slots, name)) for name in ("largest_messages", "largest")}


def largest(values: Numbers) -> int | None:
    """The largest of what was admitted at once; None if nothing was."""
    most = int(values.max(initial=-1))
    return most if most >= 0 else None
