"""The suite for the driver that `--sluicegate-driver` names; pytest collects this file then."""

from importlib import import_module
from importlib.metadata import entry_points

import pytest

from sluicegate.testing.conformance.door import Driver
from sluicegate.testing.conformance.suite import ConformanceSuite

GROUP = "sluicegate.conformance"
_ATTRIBUTE = "DRIVER"


class TestConformance(ConformanceSuite):
    """The suite; its driver is set by `collect`."""


def collect(config: pytest.Config, name: str) -> None:
    """Have pytest run the suite: alone, or beside the tests that its command line names.

    :param name: of the driver.
    :raises pytest.UsageError: if there is none of that name.
    """
    TestConformance.driver = named(name)
    if config.args_source is not config.ArgsSource.ARGS:
        config.args.clear()
    config.args.append(__file__)


def named(name: str) -> Driver:
    """A driver.

    :param name: of an entry point, or `module:ATTRIBUTE`; without an attribute, DRIVER.
    :raises pytest.UsageError: if there is none of that name.
    """
    offered = entry_points(group=GROUP, name=name)
    try:
        if offered:
            driver = next(iter(offered)).load()
        else:
            module, _, attribute = name.partition(":")
            driver = getattr(import_module(module), attribute or _ATTRIBUTE)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise pytest.UsageError(
            f"--sluicegate-driver {name}: {error}; name an entry point of {GROUP!r}, or module:ATTRIBUTE"
        ) from error
    if not isinstance(driver, Driver):
        raise pytest.UsageError(f"--sluicegate-driver {name}: {driver!r} is no Driver")
    return driver
