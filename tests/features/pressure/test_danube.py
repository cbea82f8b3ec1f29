"""Backlogs of Danube's topics: by its brokers' metrics, or by what the gate saw, against quotas."""

from typing import Any

import pytest
from tests.features.adaptive.lab import FakeContext
from tests.features.pressure.serving import failed, ok, server

from sluicegate.engine.pressure import Backlog
from sluicegate.engine.state import TopicState
from sluicegate.host.http_get import HttpError
from sluicegate.model import TopicName
from sluicegate.testing import ManualClock
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.plugin import DanubeDriver

TOPIC = "/default/orders"
METRICS = """\
# HELP danube_subscription_lag_messages Number of messages the subscription is behind the topic WAL head
# TYPE danube_subscription_lag_messages gauge
danube_subscription_lag_messages{broker="1",topic="/default/orders",subscription="slow"} 950
danube_subscription_lag_messages{broker="1",topic="/default/orders",subscription="quick"} 3
danube_subscription_lag_messages{broker="1",topic="/default/other",subscription="s"} 0
danube_subscription_lag_messages{broker="1",subscription="old"} 5
"""


def context(**backlog: Any) -> FakeContext:
    found = FakeContext(ManualClock())
    entry = {"name": "events", "system": "danube", "bootstrap": ["localhost:1"], "listen": {"port": 0}}
    found.config = DanubeConfig.model_validate({**entry, "pressure": {"backlog": backlog}})
    state = found.states[TOPIC] = TopicState(TopicName(TOPIC, "default"), 1)
    state.batched_messages, state.batched_bytes = 100, 20_000
    return found


@pytest.mark.seed("S5-022")
@pytest.mark.parametrize(
    ("quotas", "quota_bytes"),
    [
        ({"quota_messages": 1000}, 200_000),
        ({"quota": 250_000}, 250_000),
        ({"quota": 9, "quota_messages": 1}, 9),
    ],
)
async def test_the_subscription_that_is_furthest_behind_counts(
    quotas: dict[str, int], quota_bytes: float
) -> None:
    async with server(lambda path: ok(METRICS)) as broker:
        [source] = DanubeDriver().pressure_sources(context(urls=[f"{broker.url}/metrics"], **quotas))
        found = await source.read()
    assert isinstance(found, dict)
    assert found[TOPIC] == Backlog(950 * 200, quota_bytes)
    assert found["/default/other"].bytes == 0
    assert len(found) == 2


@pytest.mark.seed("S5-022")
async def test_a_topic_of_unknown_message_size_has_the_right_share_of_a_quota_in_messages() -> None:
    async with server(lambda path: ok(METRICS)) as broker:
        found = context(urls=[broker.url], quota_messages=1000)
        found.states.clear()
        [source] = DanubeDriver().pressure_sources(found)
        backlogs = await source.read()
    assert isinstance(backlogs, dict)
    assert backlogs[TOPIC].bytes / backlogs[TOPIC].quota_bytes == 0.95


@pytest.mark.seed("S5-055")
async def test_one_broker_that_cannot_be_asked_makes_it_unknown() -> None:
    async with server(lambda path: ok(METRICS)) as one, server(lambda path: failed(500)) as other:
        [source] = DanubeDriver().pressure_sources(context(urls=[one.url, other.url], quota=1))
        with pytest.raises(HttpError, match="answers 500"):
            await source.read()


@pytest.mark.seed("S5-022")
async def test_without_metrics_what_the_gate_saw_unacknowledged_counts() -> None:
    found = context(quota_messages=100)
    state = found.states[TOPIC]
    state.subscription("slow").unacked.update({"c1": 40, "c2": 50})
    state.subscription("quick").unacked.update({"c3": 1})
    [source] = DanubeDriver().pressure_sources(found)
    assert await source.read() == {TOPIC: Backlog(90 * 200, 100 * 200)}
    state.subscription("slow").unacked.clear()
    assert await source.read() == {TOPIC: Backlog(90 * 200, 100 * 200)}  # 5 s have not passed
    found.clock.advance(5)
    assert await source.read() == {TOPIC: Backlog(200, 100 * 200)}


def test_without_a_quota_there_is_no_source() -> None:
    assert DanubeDriver().pressure_sources(context()) == []
