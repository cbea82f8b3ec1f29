"""Every scenario at each of Danube's doors, on the reference broker."""

import pytest
from tests.conformance.danube_doors import DRIVER

from sluicegate.testing.conformance.suite import ConformanceSuite


@pytest.mark.seed(
    "S1-001",
    "S1-002",
    "S1-003",
    "S1-004",
    "S1-005",
    "S1-006",
    "S1-007",
    "S1-008",
    "S1-009",
    "S1-011",
    "S1-031",
    "S1-034",
    "S1-037",
    "S1-038",
    "S1-040",
    "S1-041",
    "S1-043",
    "S1-050",
    "S1-051",
    "S1-052",
    "S1-062",
    "S1-071",
    "S1-076",
    "S1-080",
    "S1-081",
    "S1-082",
    "S1-090",
    "S1-091",
    "S1-144",
)
class TestDanube(ConformanceSuite):
    """The suite at all doors."""

    driver = DRIVER
