"""The task that publishes how many limits differ."""

from typing import Any

import pytest
from tests.gateway.echo_plugin import EchoDriver

from sluicegate.broker import BaseDriver, BaseFront
from sluicegate.config.models import BrokerConfig
from sluicegate.features.drift import plugin
from sluicegate.model import Level, TopicName
from sluicegate.model.own_limits import OwnSetting, OwnSettings, OwnSettingsError
from sluicegate.testing import ManualContext

CONFIG = BrokerConfig.model_validate(
    {"name": "main", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 1}}
)
PRODUCERS = OwnSetting(
    level=Level.BROKER, field="max_producers_per_topic", value=5, origin="config", text="5"
)


class Driver(BaseDriver):
    """Tells what it is given."""

    def __init__(self) -> None:
        self.told: OwnSettings | Exception = OwnSettings((PRODUCERS,))
        self.asked = 0

    def name_of(self, topic: str, config: Any) -> TopicName:
        return TopicName(topic, "default")

    def front(self, config: Any) -> BaseFront:
        raise NotImplementedError

    async def own_settings(self, config: Any, tls: Any) -> OwnSettings:
        self.asked += 1
        if isinstance(self.told, Exception):
            raise self.told
        return self.told


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def context(driver: Driver) -> ManualContext:
    return ManualContext(driver=driver, values={"max_producers_per_topic": 6}, config=CONFIG)


async def test_a_gateway_that_starts_is_not_kept_waiting(context: ManualContext, driver: Driver) -> None:
    [task] = plugin.sluicegate_tasks(context)
    await task.run()
    assert driver.asked == 0
    first_ms = task.interval_ms()
    await task.run()
    assert driver.asked == 1
    assert (first_ms, task.interval_ms()) == (60_000, 300_000)


async def test_the_entry_says_how_often_the_broker_is_asked(driver: Driver) -> None:
    often = ManualContext(driver=driver, config=CONFIG.model_copy(update={"drift_interval": 10_000}))
    [task] = plugin.sluicegate_tasks(often)
    await task.run()
    first_ms = task.interval_ms()
    await task.run()
    assert (first_ms, task.interval_ms()) == (10_000, 10_000)
    never = ManualContext(driver=driver, config=CONFIG.model_copy(update={"drift_interval": 0}))
    assert plugin.sluicegate_tasks(never) == []


async def test_the_numbers_follow_the_broker_and_vanish_with_it(
    context: ManualContext, driver: Driver
) -> None:
    watch = plugin.DriftWatch(context, driver)
    await watch.read()
    values = context.metrics[plugin.METRIC].values
    assert values == {("stricter",): 1, ("looser",): 0, ("unset",): 0, ("equal",): 0}
    context.values["max_producers_per_topic"] = 4
    await watch.read()
    assert values == {("stricter",): 0, ("looser",): 1, ("unset",): 0, ("equal",): 0}
    driver.told = OwnSettingsError("it is down", "start it")
    await watch.read()
    assert values == {}


def test_a_driver_that_cannot_tell_has_no_task() -> None:
    assert plugin.sluicegate_tasks(ManualContext(driver=EchoDriver())) == []
    assert plugin.sluicegate_tasks(ManualContext()) == []
