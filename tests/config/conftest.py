"""A small set of policy fields and brokers, and a way to load text."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Literal

import pytest
from pydantic import Field

from sluicegate.config import (
    BrokerConfig,
    ByteRate,
    Count,
    Duration,
    MessageRate,
    PolicyModel,
    Seconds,
    Size,
)
from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.load import Loaded, load


class CountPolicies(PolicyModel):
    on_limit_actions: ClassVar = {"max_producers_per_topic": ("reject",)}
    on_unknown_policies = frozenset({"max_subscriptions_per_topic", "disk"})
    scoped_by_groups = frozenset({"max_subscriptions_per_topic"})
    broker_only = frozenset({"connection_rate_limit", "disk"})

    max_producers_per_topic: Count | None = Field(default=None, description="Producers at once.")
    max_subscriptions_per_topic: Count | None = None
    connection_rate_limit: MessageRate | None = None
    disk: bool | None = None


class RatePolicies(PolicyModel):
    aliases: ClassVar = {"max_publish_rate_msg": "max_publish_rate"}
    on_limit_actions: ClassVar = {
        "max_publish_rate": ("delay", "reject", "drop"),
        "max_publish_rate_bytes": ("delay", "reject"),
    }
    parameters = frozenset({"burst_seconds"})
    defaults: ClassVar = {"max_message_size": 10_485_760}

    max_publish_rate: MessageRate | None = None
    max_publish_rate_bytes: ByteRate | None = None
    max_message_size: Size | None = None
    burst_seconds: Seconds | None = None


class DelayPolicies(PolicyModel):
    parameters = frozenset({"delay_clock"})
    whole_topic = frozenset({"fixed_delivery_delay"})
    unscoped = parameters

    fixed_delivery_delay: Duration | None = None
    delay_clock: Literal["publish_time", "receive_time"] | None = None


class Kafka(BrokerConfig):
    system: Literal["kafka"]
    node_port_base: int | None = None


class Danube(BrokerConfig):
    system: Literal["danube"]


POLICY_MODELS = (CountPolicies, RatePolicies, DelayPolicies)
BROKER_MODELS = (Kafka, Danube)

BROKERS = """\
brokers:
  - name: main
    system: kafka
    bootstrap: ["127.0.0.1:9092"]
    listen: {port: 19092}
"""

LoadText = Callable[..., Loaded]
RefuseText = Callable[..., list[Finding]]


@pytest.fixture
def load_text(tmp_path: Path) -> LoadText:
    """Load a text as `gateway.yaml`, after the broker section unless it has one of its own."""

    def load_it(text: str, environ: Mapping[str, str] | None = None) -> Loaded:
        file = tmp_path / "gateway.yaml"
        file.write_text(text if "brokers:" in text else BROKERS + text)
        return load(file, POLICY_MODELS, BROKER_MODELS, environ or {})

    return load_it


@pytest.fixture
def refuse_text(load_text: LoadText) -> RefuseText:
    """Load a text that has errors, and return them."""

    def refuse_it(text: str, environ: Mapping[str, str] | None = None) -> list[Finding]:
        with pytest.raises(ConfigErrors) as refused:
            load_text(text, environ)
        return refused.value.errors

    return refuse_it
