"""Backlogs of Danube's topics, measured against configured quotas, as Danube has none of its own.

Metrics of brokers, if published, show the lag of each subscription. Without them the gateway knows what
consumers got and did not acknowledge, where `max_unacked_messages_per_consumer` has it count that.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from sluicegate.broker import BrokerContext
from sluicegate.config.pressure_section import BacklogConfig
from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.engine.state import TopicState
from sluicegate.features.pressure.pacing import Paced
from sluicegate.features.pressure.text_format import series
from sluicegate.host.http_get import http_get
from sluicegate_danube.config import DanubeConfig

LAG = "danube_subscription_lag_messages"
_UNKNOWN_SIZE = 1.0
"""Bytes of a message where nothing was published yet: the share of a quota in messages is right even so."""


async def of_brokers(context: BrokerContext, config: BacklogConfig) -> Mapping[str, Backlog]:
    """Backlogs by the brokers' metrics: of each topic the subscription that is furthest behind.

    :raises HttpError: if any broker cannot be asked: the topics that it has would look caught up.
    """
    ask = partial(http_get, timeout_s=config.timeout / 1000, tls=context.broker_tls)
    responses = await asyncio.gather(*(ask(url) for url in config.urls))
    lags: dict[str, float] = {}
    for response in responses:
        for labels, value in series(response.decode("utf-8", errors="replace"), LAG):
            topic = labels.get("topic", "")
            lags[topic] = max(value, lags.get(topic, 0.0))
    states = context.states
    return {topic: backlog(lag, states.get(topic), config) for topic, lag in lags.items() if topic}


async def of_gate(context: BrokerContext, config: BacklogConfig) -> Mapping[str, Backlog]:
    """Backlogs from the deliveries and acknowledgements that the gateway itself saw."""
    return {name: backlog(unacked(state), state, config) for name, state in tuple(context.states.items())}


def unacked(state: TopicState) -> int:
    """Messages not acknowledged, of the subscription that has most of them."""
    subscriptions = tuple(state.subscriptions.values())
    return max((sum(tuple(each.unacked.values())) for each in subscriptions), default=0)


def backlog(messages: float, state: TopicState | None, config: BacklogConfig) -> Backlog:
    """Messages as bytes, by the mean size of those that were published, and the quota nearest to them."""
    published = state.allowed_messages if state is not None else 0
    size = state.allowed_bytes / published if state is not None and published else _UNKNOWN_SIZE
    size = max(size, _UNKNOWN_SIZE)
    quotas = [quota for quota in (config.quota, config.quota_messages * size) if quota > 0]
    return Backlog(messages * size, min(quotas, default=0))


def pressure_sources(context: BrokerContext) -> Sequence[PressureSource]:
    """Backlogs of a cluster whose entry has a quota."""
    entry = context.config
    if not isinstance(entry, DanubeConfig):
        return []
    config = entry.pressure.backlog
    if not (config.quota or config.quota_messages):
        return []
    ask = partial(of_brokers if config.urls else of_gate, context, config)
    return [PressureSource("danube_backlog", "backlog", Paced(ask, config.interval, context.now_ns).read)]
