"""Every scenario at each of Danube's doors, on the reference broker."""

from tests.conformance.danube_doors import DRIVER

from sluicegate.testing.conformance.suite import ConformanceSuite


class TestDanube(ConformanceSuite):
    """The suite at all doors."""

    driver = DRIVER
