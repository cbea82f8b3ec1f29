"""Client libraries by the name of the system that they speak to; further ones are added by `register`."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from sluicegate_reports.runner.clients.base import ClientDriver, MakeDriver
from sluicegate_reports.runner.plan import ArmPlan

_OWN = {
    "kafka": ("aiokafka", "sluicegate_reports.runner.clients.kafka"),
    "pulsar": ("pulsar-client", "sluicegate_reports.runner.clients.pulsar"),
    "danube": ("danube-client", "sluicegate_reports.runner.clients.danube"),
}
_FURTHER: dict[str, tuple[str, MakeDriver]] = {}


def register(name: str, label: str, make: MakeDriver) -> None:
    """Add a way to drive clients, such as a wrapper around a stock one.

    :param name: by which plans name it.
    :param label: distribution, or words for the run's facts.
    """
    _FURTHER[name] = (label, make)


def driver(plan: ArmPlan) -> ClientDriver:
    """The driver of a plan's clients.

    :raises KeyError: if there is none of that name.
    :raises ImportError: if the client library is not installed.
    """
    if plan.client in _FURTHER:
        return _FURTHER[plan.client][1](plan)
    module = import_module(_OWN[plan.client][1])
    made: ClientDriver = module.Driver(plan)
    return made


def label(name: str) -> str:
    """The library and its version; with `not installed` where it is missing."""
    distribution = _FURTHER[name][0] if name in _FURTHER else _OWN[name][0]
    try:
        return f"{distribution} {version(distribution)}"
    except PackageNotFoundError:
        return f"{distribution} not installed"
