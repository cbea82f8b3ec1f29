"""A plugin with all that follows a broker's state, beside one whose every hook raises."""

import asyncio
import threading

from sluicegate import hookimpl
from sluicegate.broker import BrokerContext
from sluicegate.engine.factors import Factor
from sluicegate.engine.pressure import PressureSource
from sluicegate.engine.quota import Quota
from sluicegate.engine.task import Task


class Following:
    """A factor that a task sets to what `wanted` says, and a quota for one principal."""

    def __init__(self, wanted: float = 1.0) -> None:
        self.wanted = wanted
        self.factor = Factor("tank", "Pump it out.")
        self.context: BrokerContext | None = None
        self.asked: list[str] = []
        self.threads: set[threading.Thread] = set()
        self.setters: set[threading.Thread] = set()
        self.runs = 0

    @hookimpl
    def sluicegate_quota(self, principal: str) -> Quota | None:
        self.asked.append(principal)
        return Quota(messages_per_s=2, share="small") if principal == "small" else None

    @hookimpl
    def sluicegate_quota_factors(self, context: BrokerContext) -> list[Factor]:
        self.context = context
        return [self.factor]

    @hookimpl
    def sluicegate_pressure_sources(self, context: BrokerContext) -> list[PressureSource]:
        assert self.factor in list(context.factors)

        async def read() -> float:
            return 0.5

        return [PressureSource("tank", "memory", read)]

    @hookimpl
    def sluicegate_tasks(self, context: BrokerContext) -> list[Task]:
        assert "tank" in [source.name for source in context.pressure_sources]

        async def run() -> None:
            self.threads.add(threading.current_thread())
            await asyncio.sleep(0)
            wanted = self.wanted
            context.apply(lambda: self._set(wanted))

        return [Task("tank", lambda: 20, run)]

    def _set(self, wanted: float) -> None:
        self.setters.add(threading.current_thread())
        self.factor.set(wanted, f"the tank leaves {wanted}")
        self.runs += 1


class Raising:
    """Raises wherever it can."""

    @hookimpl
    def sluicegate_quota(self, principal: str) -> None:
        raise RuntimeError("no quota")

    @hookimpl
    def sluicegate_quota_factors(self, context: BrokerContext) -> None:
        raise RuntimeError("no factors")

    @hookimpl
    def sluicegate_pressure_sources(self, context: BrokerContext) -> None:
        raise RuntimeError("no sources")

    @hookimpl
    def sluicegate_tasks(self, context: BrokerContext) -> list[Task]:
        async def run() -> None:
            context.apply(lambda: 1 // 0)  # type: ignore[arg-type]
            raise RuntimeError("no work")

        return [Task("raising", lambda: 20, run)]
