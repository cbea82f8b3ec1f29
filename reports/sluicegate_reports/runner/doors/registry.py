"""All known arms."""

from collections.abc import Iterable

from sluicegate_reports.runner.doors.base import Arm
from sluicegate_reports.runner.doors.interceptor import ARMS as INTERCEPTOR
from sluicegate_reports.runner.doors.native import ARMS as NATIVE
from sluicegate_reports.runner.doors.proxy import ARMS as PROXY

_ARMS: dict[tuple[str, str], Arm] = {(arm.system, arm.door): arm for arm in (*PROXY, *INTERCEPTOR, *NATIVE)}


def register(arm: Arm) -> None:
    """Add an arm; one of the same system and door is replaced."""
    _ARMS[arm.system, arm.door] = arm


def known_doors() -> list[str]:
    """Names of all doors."""
    return list(dict.fromkeys(arm.door for arm in _ARMS.values()))


def arms_of(systems: Iterable[str], doors: Iterable[str]) -> list[Arm]:
    """The arms of systems and doors, by system.

    :param systems: kinds of broker; a kind may have several arms behind one door.
    """
    wanted = list(doors)
    found: list[Arm] = []
    for system in systems:
        of_system = [arm for arm in _ARMS.values() if arm.client == system and arm.door in wanted]
        played = [arm for arm in of_system if not arm.asked_only]
        found += sorted(played or of_system, key=lambda arm: arm.broker or "")
    return found
