"""Figures of a rate that was kept, by its log and by its clients."""

from sluicegate_reports.verdicts.rates import SEEN

KEPT = {
    "excess": 0.0,
    "excess_share": 0.0,
    "used": 1.0,
    "largest": 1.0,
    "limited": 5.0,
    "admitted": 220.0,
    "admitted_messages": 220.0,
}
OVER = {"excess": 100.0, "excess_share": 0.5}


def beside(**changes: float | None) -> dict[str, float | None]:
    """Figures of a log that was kept, and of clients that saw something else."""
    return {**KEPT, **{f"{SEEN}{name}": value for name, value in {**KEPT, **changes}.items()}}
