"""Names of topics on the systems."""

import re

import pytest

from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import Level, PolicyLayer, PolicySet, Setting, Source
from sluicegate.runtime.plugins import load_plugins
from sluicegate_reports.runner.names import full_name, namespace_pattern, topic_pattern
from sluicegate_reports.runner.scenario import SYSTEMS

FULL = {
    "kafka": "shop.orders--proxy-a1b2c3",
    "pulsar": "persistent://public/shop/orders--proxy-a1b2c3",
    "danube": "/shop/orders--proxy-a1b2c3",
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_topic_has_the_form_of_its_system(system: str) -> None:
    assert full_name(system, "shop", "orders", "proxy-a1b2c3") == FULL[system]


@pytest.mark.parametrize("system", SYSTEMS)
def test_one_policy_text_applies_to_all_systems(system: str) -> None:
    setting = Setting(7, Source.FILE, "")
    layers = (
        PolicyLayer(Level.TOPIC, topic_pattern("orders"), {"max_publish_rate": setting}),
        PolicyLayer(Level.NAMESPACE, namespace_pattern("shop"), {"max_dispatch_rate": setting}),
        PolicyLayer(Level.TOPIC, topic_pattern("order"), {"max_message_size": setting}),
    )
    driver = load_plugins(()).drivers[system]
    config = driver.config_model.model_validate(
        {"name": "a", "system": system, "bootstrap": ["127.0.0.1:1"], "listen": {"port": 19092}}
    )
    held = Resolver(PolicySet(1, layers), {}).resolve(driver.name_of(FULL[system], config))
    assert dict(held.values) == {"max_publish_rate": 7, "max_dispatch_rate": 7}


def test_a_pattern_in_a_scenario_stays_a_pattern() -> None:
    assert topic_pattern("tenant-*") == "*tenant-*--*"
    assert re.fullmatch(topic_pattern("*").replace("*", ".*"), FULL["kafka"])
