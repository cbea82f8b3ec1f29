"""The interface between a door and the runner."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sluicegate.model import EffectivePolicies
from sluicegate_reports import registry
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.children import Talker
from sluicegate_reports.runner.loading import LoadedScenario


@dataclass(frozen=True, slots=True)
class Judged:
    """How far a door enforces a policy: exactly as stated, if both texts are empty."""

    nearest: str = ""
    """Why the nearest feature of the system only comes close to the policy."""
    not_applicable: str = ""
    """Why the policy does not exist there."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that clients can reach."""

    system: str
    """Kind of broker: kafka, pulsar, danube."""
    addresses: tuple[str, ...]
    """host:port."""
    label: str
    """Label that must stand beside its name; empty for a real broker."""
    version: str
    """What it is, for the facts of the run."""
    admin: str = ""
    """Address of its admin API; empty if that is not known."""
    embedded: bool = False
    """True for a stand-in that the runner starts; it has no policies of its own."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What an arm is given to open it."""

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
    process: Talker | None = None
    """The gate, whose clock is compared with the clients'."""
    notes: list[str] = field(default_factory=list)
    """Problems to report; complete once the arm is closed."""


Open = Callable[[Setting], AbstractAsyncContextManager[Way]]
"""Applies the policies and makes the arm ready for clients.

:raises UnavailableError: if the arm is not available, with the reason.
"""


def straight(why: str) -> Open:
    """Opens an arm whose clients connect to the broker itself.

    :param why: the reason to give where there is no broker.
    """

    @asynccontextmanager
    async def opened(setting: Setting) -> AsyncIterator[Way]:
        if setting.broker is None:
            raise UnavailableError(why)
        yield Way(setting.broker.addresses)

    return opened


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
    """Label that must stand beside its name; the broker's own label is added."""
    broker: str | None = None
    """The broker that it needs, see `broker_provider`; None if it starts its own."""
    judged: Mapping[str, Judged] = field(default_factory=dict)
    """By policy, for policies that are not enforced exactly as stated, besides those that the registry says
    its kind of broker lacks; known whether or not the arm can be played."""
    asked_only: bool = False
    """True if it only explains why there is no such arm: played only if no other arm is requested."""

    @property
    def name(self) -> str:
        """`kafka proxy`."""
        return f"{self.system} {self.door}"

    def all_judged(self) -> dict[str, Judged]:
        """What `judged` has, and the policies that its kind of broker lacks at its door, by the registry."""
        lacks = registry.system(self.client).lacks
        return {
            **{
                each.policy: Judged(not_applicable=each.why) for each in lacks if each.door in ("", self.door)
            },
            **self.judged,
        }
