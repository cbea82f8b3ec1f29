"""Every scenario at each of Pulsar's doors, on the reference broker."""

from tests.conformance.pulsar_driver import DRIVER

from sluicegate.testing.conformance.suite import ConformanceSuite


class TestPulsar(ConformanceSuite):
    """The suite at all doors."""

    driver = DRIVER
