"""Faults of plugins, which a gateway survives and a test must not."""

from typing import NoReturn

from sluicegate.engine.faults import Fault, GateFaults


class PluginFaultError(AssertionError):
    """A plugin did what a gateway counts as its fault."""


def failing_faults() -> GateFaults:
    """Faults of gates, the first of which fails the test.

    Where a test is about what a gateway does then, give `build_gate` a `GateFaults()` of your own.
    """
    return GateFaults(_fail)


def _fail(fault: Fault) -> NoReturn:
    policy = f", policy {fault.policy}" if fault.policy else ""
    raise PluginFaultError(f"plugin {fault.plugin}{policy}, topic {fault.topic}: {fault.error}")
