"""Client libraries by system name, or by module and class for others."""

from importlib.metadata import PackageNotFoundError, version
from pkgutil import resolve_name

from sluicegate_reports.registry import kinds
from sluicegate_reports.runner.clients.base import ClientDriver
from sluicegate_reports.runner.plan import ArmPlan


def driver(plan: ArmPlan) -> ClientDriver:
    """The driver of a plan's clients.

    :raises ImportError: if the client library, or the module that the plan names, is not installed.
    :raises AttributeError: if the module has no such driver.
    """
    kind = kinds().get(plan.client)
    made: ClientDriver = resolve_name(kind.driver if kind else plan.client)(plan)
    return made


def label(system: str) -> str:
    """The library that speaks to a system, and its version; `not installed` where it is missing."""
    distribution = kinds()[system].library
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return f"{distribution} not installed"
