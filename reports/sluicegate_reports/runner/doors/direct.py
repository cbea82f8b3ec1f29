"""The systems without any policy: what messages cost there is the yardstick for all other doors."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from sluicegate_reports.registry import kinds
from sluicegate_reports.registry.arms import DIRECT_DOOR
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Arm, Setting, Way


@asynccontextmanager
async def _open(setting: Setting) -> AsyncIterator[Way]:
    if setting.broker is None:
        raise UnavailableError("there is no broker to connect to")
    yield Way(setting.broker.addresses)


def arms() -> Iterator[Arm]:
    """One for each kind of broker."""
    return (Arm(system, DIRECT_DOOR, system, _open, broker=system) for system in kinds())
