"""Backlogs from Pulsar's admin API: each topic's size and quota."""

import asyncio
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from sluicegate.broker import BrokerContext
from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.engine.state import TopicState
from sluicegate.features.pressure.pacing import Paced
from sluicegate_pulsar.cluster.admin import AdminApi, AdminApiError
from sluicegate_pulsar.cluster.brokers import Brokers
from sluicegate_pulsar.config import PulsarConfig

MOST_TOPICS = 1_000
"""Topics asked about in one reading, those asked longest ago first."""
_AT_ONCE = 8
_READING_NS = 2_000_000_000
"""After so long a reading asks about no more topics, and the next one begins with those left out: the
controller gives up a reading that takes too long, and would never get a result."""
_QUOTAS_NS = 60_000_000_000
"""How long quotas hold that had to be asked for by themselves."""
_GIB = 1 << 30
_PERSISTENT = "persistent://"
_QUOTA_TYPE = "destination_storage"


class PulsarBacklogs:
    """Reads the backlogs of topics that receive messages.

    Since 3.3 a topic's statistics include its effective quota. With older brokers it reads the topic's
    policy, then the namespace's, then the brokers' default.

    :param config: of the cluster; has an admin API.
    :param context: the gateway, whose topics are read.
    """

    def __init__(self, config: PulsarConfig, context: BrokerContext) -> None:
        if config.admin is None:
            raise ValueError("no `admin` is configured")
        self._api = AdminApi(config.admin, context.broker_tls, Brokers(config, {}))
        self._context = context
        self._timeout_s = config.pressure.backlog.timeout / 1000
        self._own_quota = config.pressure.backlog.quota
        self._last: dict[str, Backlog] = {}
        self._published: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._rounds = 0
        self._quotas: dict[str, tuple[int, int]] = {}

    async def read(self) -> Mapping[str, Backlog]:
        """All known backlogs; a topic whose request fails keeps its last one.

        :raises AdminApiError: if the first requests all fail.
        """
        states = {
            name: state for name, state in tuple(self._context.states.items()) if name.startswith(_PERSISTENT)
        }
        for known in (self._last, self._published, self._asked):
            for name in known.keys() - states.keys():
                del known[name]
        topics = self._choose(states)
        self._rounds += 1
        began_ns = self._context.now_ns()
        for begin in range(0, len(topics), _AT_ONCE):
            if self._context.now_ns() - began_ns > _READING_NS:
                break
            asked = topics[begin : begin + _AT_ONCE]
            self._published.update((topic, states[topic].allowed_messages) for topic in asked)
            errors = await asyncio.gather(*map(self._ask, asked))
            failed = [error for error in errors if error is not None]
            if begin == 0 and failed and len(failed) == len(errors):
                raise failed[0]  # it is down: further requests would only take time
        return dict(self._last)

    def _choose(self, states: Mapping[str, TopicState]) -> list[str]:
        """Topics that received messages since the last reading, and those that had a backlog then."""
        wanted = []
        for name, state in states.items():
            backlog = self._last.get(name)
            is_news = self._published.get(name) != state.allowed_messages
            if is_news or (backlog is not None and backlog.bytes > 0):
                wanted.append(name)
        wanted.sort(key=lambda name: self._asked.get(name, -1))
        return wanted[:MOST_TOPICS]

    async def _ask(self, topic: str) -> AdminApiError | None:
        self._asked[topic] = self._rounds
        try:
            async with asyncio.timeout(self._timeout_s):
                backlog = await self._backlog(topic)
        except TimeoutError:
            return AdminApiError(f"no answer about {topic} within {self._timeout_s:g} s")
        except (KeyError, TypeError, ValueError) as error:
            return AdminApiError(f"statistics of {topic} cannot be read: {error!r}")
        except AdminApiError as error:
            return error
        if backlog is not None:
            self._last[topic] = backlog
        else:
            self._last.pop(topic, None)
        return None

    async def _backlog(self, topic: str) -> Backlog | None:
        """A topic's backlog; None if it does not exist."""
        try:
            stats = await self._api.topic_stats(topic)
        except AdminApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        return Backlog(float(stats["backlogSize"]), await self._quota(topic, stats))

    async def _quota(self, topic: str, stats: Mapping[str, Any]) -> float:
        stated = stats.get("backlogQuotaLimitSize")
        limit = int(stated) if stated is not None else await self._asked_quota(topic)
        return float(limit if limit > 0 else self._own_quota)

    async def _asked_quota(self, topic: str) -> int:
        now_ns = self._context.now_ns()
        known = self._quotas.get(topic)
        if known is not None and now_ns - known[1] < _QUOTAS_NS:
            return known[0]
        if len(self._quotas) >= 2 * MOST_TOPICS:
            self._quotas.clear()
        limit = await self._find_quota(topic)
        self._quotas[topic] = (limit, now_ns)
        return limit

    async def _find_quota(self, topic: str) -> int:
        limit = _limit(await self._api.topic_backlog_quotas(topic))
        if limit is None:
            tenant, namespace, _ = topic.removeprefix(_PERSISTENT).split("/", 2)
            limit = _limit(await self._api.backlog_quotas(tenant, namespace))
        if limit is not None:
            return limit
        configuration = await self._api.configuration()
        nbytes = int(configuration.get("backlogQuotaDefaultLimitBytes", -1))
        gigabytes = float(configuration.get("backlogQuotaDefaultLimitGB", -1))
        return nbytes if nbytes > 0 else int(gigabytes * _GIB)


def _limit(quotas: Mapping[str, Any]) -> int | None:
    """The bytes of a quota map; None if it sets no quota of that type."""
    quota = quotas.get(_QUOTA_TYPE)
    if not isinstance(quota, Mapping):
        return None
    return int(quota.get("limitSize", quota.get("limit", -1)))


def pressure_sources(context: BrokerContext) -> Sequence[PressureSource]:
    """Backlogs of a cluster whose entry has an admin API."""
    config = context.config
    if not isinstance(config, PulsarConfig) or config.admin is None:
        return []
    paced = Paced(PulsarBacklogs(config, context).read, config.pressure.backlog.interval, context.now_ns)
    return [PressureSource("pulsar_backlog", "backlog", paced.read)]
