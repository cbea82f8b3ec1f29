"""The systems without any policy: what messages cost there is the yardstick for all other doors."""

from collections.abc import Iterator

from sluicegate_reports.registry import kinds
from sluicegate_reports.registry.arms import DIRECT_DOOR
from sluicegate_reports.runner.doors.base import Arm, straight

_OPEN = straight("there is no broker to connect to")


def arms() -> Iterator[Arm]:
    """One for each kind of broker."""
    return (Arm(system, DIRECT_DOOR, system, _OPEN, broker=system) for system in kinds())
