"""All known arms."""

from collections.abc import Iterable
from functools import partial
from pkgutil import resolve_name

from sluicegate_reports import registry
from sluicegate_reports.runner.doors import direct, interceptor, native, proxy
from sluicegate_reports.runner.doors.base import Arm


def known_doors() -> list[str]:
    """Names of all doors.

    :raises sluicegate_reports.registry.RegistryError: as `arms_of`.
    """
    return list(dict.fromkeys(arm.door for arm in _arms()))


def arms_of(systems: Iterable[str], doors: Iterable[str]) -> list[Arm]:
    """The arms of systems and doors, by system.

    :param systems: kinds of broker; a kind may have several arms behind one door.
    :raises sluicegate_reports.registry.RegistryError: if an arm of another package cannot be used.
    """
    wanted = list(doors)
    chosen: list[Arm] = []
    for system in systems:
        of_system = [arm for arm in _arms() if arm.client == system and arm.door in wanted]
        played = [arm for arm in of_system if not arm.asked_only]
        chosen += sorted(played or of_system, key=lambda arm: arm.broker or "")
    return chosen


def _arms() -> list[Arm]:
    theirs = [
        registry.load(f"arm {path!r}", partial(resolve_name, path), Arm, "sluicegate_reports.runner.doors")
        for path in registry.arm_paths()
    ]
    return [*proxy.arms(), *interceptor.ARMS, *native.ARMS, *direct.arms(), *theirs]
