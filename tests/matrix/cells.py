"""The cells of the matrix, as the capabilities of the broker drivers give them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pytest
from _pytest.mark.structures import ParameterSet
from tests.matrix.policies import SHOWN, Shown

from sluicegate.config.fields import PolicyFields
from sluicegate.runtime.plugins import load_plugins

NOT_APPLICABLE = "not applicable"
_COUNTS = ("max_producers_per_topic", "max_subscriptions_per_topic", "max_consumers_per_subscription")
"""One of each kind of what attaches."""
ONE, SEVERAL = "one process", "several processes"


@cache
def capabilities() -> Mapping[str, Mapping[str, str]]:
    """What each driver declares: how its system has a policy, by system and policy."""
    drivers = load_plugins(()).drivers
    return {system: getattr(driver, "capabilities", {}) for system, driver in drivers.items()}


@cache
def broker_only() -> frozenset[str]:
    """Policies that hold for a whole broker, so that a gate shows one of them at a time."""
    return PolicyFields.of(load_plugins(()).policy_models).broker_only


def applicable(system: str) -> list[str]:
    """The policies that a system enforces."""
    return [name for name, how in capabilities()[system].items() if how != NOT_APPLICABLE]


@dataclass(frozen=True, slots=True)
class Cell:
    """One way to show a policy, with the clients of one library."""

    shown: Shown
    family: str
    where: str
    """Whether its clients share one process."""

    @property
    def name(self) -> str:
        """Of the cell in a run of tests, and of its topic in the characters that all systems allow."""
        words = (self.shown.name, self.family, self.where)
        return "-".join("".join(c if c.isalnum() else "-" for c in word) for word in words)


def cells(system: str, families: Sequence[str]) -> Iterator[Cell]:
    """All cells of a system."""
    for policy in applicable(system):
        for shown in SHOWN:
            if shown.policy == policy and system in shown.systems:
                for family in (each for each in families if each not in shown.without):
                    yield Cell(shown, family, ONE)
                    if shown.many:
                        yield Cell(shown, family, SEVERAL)


def parameters(system: str, families: Sequence[str]) -> list[ParameterSet]:
    """The same as parameters of a test.

    On a slow machine only the first family plays all of them: the others differ from it in how they attach,
    and that they show by one count of each kind, with clients of one process.
    """
    return [
        pytest.param(cell, id=cell.name, marks=[pytest.mark.longer] if _is_longer(cell, families[0]) else [])
        for cell in cells(system, families)
    ]


def _is_longer(cell: Cell, first: str) -> bool:
    return cell.family != first and not (cell.shown.name in _COUNTS and cell.where == ONE)
