"""Client libraries by system name, or by module and class for others."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from sluicegate_reports.runner.clients.base import ClientDriver
from sluicegate_reports.runner.kinds import KINDS
from sluicegate_reports.runner.plan import ArmPlan


def driver(plan: ArmPlan) -> ClientDriver:
    """The driver of a plan's clients.

    :raises ImportError: if the client library, or the module that the plan names, is not installed.
    :raises AttributeError: if the module has no such driver.
    """
    place = KINDS[plan.client].driver if plan.client in KINDS else plan.client
    module, _, name = place.partition(":")
    made: ClientDriver = getattr(import_module(module), name)(plan)
    return made


def label(system: str) -> str:
    """The library that speaks to a system, and its version; `not installed` where it is missing."""
    distribution = KINDS[system].library
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return f"{distribution} not installed"
