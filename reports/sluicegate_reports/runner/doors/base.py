"""The interface between a door and the runner."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from sluicegate.model import EffectivePolicies
from sluicegate_reports import registry
from sluicegate_reports.runner.children import Talker
from sluicegate_reports.runner.loading import LoadedScenario


@dataclass(frozen=True, slots=True)
class Judged:
    """How a policy is had at a door; with both empty it is had as the policy says."""

    nearest: str = ""
    """Why what there is is only the nearest thing to it."""
    not_applicable: str = ""
    """Why there is no such policy."""


def lacking(system: str, door: str) -> dict[str, Judged]:
    """Policies that a system lacks at a door, according to the registry."""
    lacks = registry.system(system).lacks
    return {each.policy: Judged(not_applicable=each.why) for each in lacks if each.door in ("", door)}


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that clients can reach."""

    system: str
    """Kind of broker: kafka, pulsar, danube."""
    addresses: tuple[str, ...]
    """host:port."""
    label: str
    """What has to stand beside its name; empty for a real one."""
    version: str
    """What it is, for the facts of the run."""
    admin: str = ""
    """Address of its admin API; empty if that is not known."""
    embedded: bool = False
    """True for a stand-in within the runner, which has no policies of its own."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What an arm finds when it is opened."""

    loaded: LoadedScenario
    run: str
    arm: "Arm"
    topics: Mapping[str, str]
    """Full names by the scenario's names."""
    run_directory: Path
    directory: Path
    """The arm's own, for settings and what its processes print; exists."""
    broker: Broker | None
    resolve: Callable[[str], EffectivePolicies]
    """What holds for a topic, by its full name."""


@dataclass(slots=True)
class Way:
    """An arm that is open."""

    addresses: tuple[str, ...]
    """Where clients connect."""
    client: str = ""
    """Which clients are driven, see `plan.ArmPlan`; the stock ones of the arm's system if empty."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Settings for the clients, see `plan.ArmPlan`."""
    judged: Mapping[str, Judged] = field(default_factory=dict)
    """By policy, for those that are not had as they say."""
    process: Talker | None = None
    """The gate, whose clock is compared with the clients'."""
    notes: list[str] = field(default_factory=list)
    """What went wrong with it; complete when it is closed."""


Open = Callable[[Setting], AbstractAsyncContextManager[Way]]
"""Puts the policies into force and lets clients in.

:raises UnavailableError: if it cannot be had, with the reason.
"""


@dataclass(frozen=True, slots=True)
class Arm:
    """One system behind one door."""

    system: str
    """As in the column `system`."""
    door: str
    client: str
    """Kind of broker that its clients speak to: kafka, pulsar, danube."""
    open: Open
    label: str = ""
    """What has to stand beside its name; the broker's own label is added."""
    broker: str | None = None
    """Which broker it needs, see `places`; None if it brings one."""
    asked_only: bool = False
    """True if it only explains why there is no such arm: played only if no other arm is requested."""

    @property
    def name(self) -> str:
        """`kafka proxy`."""
        return f"{self.system} {self.door}"
