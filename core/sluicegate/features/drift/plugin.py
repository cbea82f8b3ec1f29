"""Publishes how many of a broker's own limits differ from the policies in force."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from sluicegate.broker import BaseDriver, BrokerContext
from sluicegate.engine.task import Task
from sluicegate.features.drift.comparing import Entry, Kind, by_target
from sluicegate.hooks import hookimpl
from sluicegate.model.own_limits import OwnSettings, OwnSettingsError

_FIRST_MS = 60_000
"""Until the first reading, if the interval is longer: a gateway that starts has other requests to make."""
_TIMEOUT_S = 60.0
_PLACES_AT_ONCE = 100
_PAUSE_S = 0.01
METRIC = "sluicegate_drift"


@hookimpl
def sluicegate_tasks(context: BrokerContext) -> Sequence[Task]:
    """Ask the broker now and then, if its driver can and its entry wants it."""
    driver = context.driver
    if driver is None or not driver.tells_own_settings or not context.config.drift_interval:
        return []
    watch = DriftWatch(context, driver)
    return [Task("drift", watch.interval_ms, watch.run)]


class DriftWatch:
    """Compares the settings of one broker with the policies in force, again and again.

    :param context: its gateway.
    :param driver: of its kind of broker.
    """

    def __init__(self, context: BrokerContext, driver: BaseDriver) -> None:
        self._context = context
        self._driver = driver
        self._runs = 0
        self._metric = context.metrics.gauge(
            METRIC,
            "How many of the broker's own limits differ from the policies in force; absent while "
            "it does not answer.",
            ("kind",),
        )

    def interval_ms(self) -> int:
        """How long after the last run the next one begins."""
        interval_ms: int = self._context.config.drift_interval
        return min(_FIRST_MS, interval_ms) if self._runs <= 1 else interval_ms

    async def run(self) -> None:
        """Read, but not in the first run, which clients wait for."""
        self._runs += 1
        if self._runs > 1:
            await self.read()

    async def read(self) -> None:
        """Ask the broker and publish; without an answer there are no values."""
        context = self._context
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                own = await self._driver.own_settings(context.config, context)
        except (OwnSettingsError, TimeoutError) as error:
            context.log.debug("the broker's own limits cannot be read: %s", error)
            self._metric.clear()
            return
        numbers = await self._count(own)
        for kind in Kind:
            self._metric.set(numbers[kind], kind.value)

    async def _count(self, own: OwnSettings) -> Counter[Kind]:
        """Compare, with pauses, as the relay's thread needs the interpreter too."""
        entry = Entry.of(self._driver, self._context.config)
        targets = by_target(own.settings, self._context.resolver, entry)
        numbers: Counter[Kind] = Counter()
        for number, compared in enumerate(targets):
            numbers.update(each.kind for each in compared)
            if number % _PLACES_AT_ONCE == 0:
                await asyncio.sleep(_PAUSE_S)
        return numbers
