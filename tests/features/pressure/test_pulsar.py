"""Backlogs and quotas as Pulsar's admin API tells them: recorded answers, over the loopback."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.features.adaptive.lab import FakeContext
from tests.features.pressure.serving import failed, ok, server

from sluicegate.config.pressure_section import BacklogConfig, PressureConfig
from sluicegate.engine.pressure import Backlog
from sluicegate.engine.state import TopicState
from sluicegate.model import TopicName
from sluicegate.testing import ManualClock
from sluicegate_pulsar.cluster.admin import AdminApiError
from sluicegate_pulsar.cluster.backlogs import PulsarBacklogs
from sluicegate_pulsar.config import Admin, PulsarConfig
from sluicegate_pulsar.plugin import PulsarDriver

ORDERS = "persistent://public/default/orders"
PART = "persistent://public/default/parts-partition-3"
STATS = {
    "msgRateIn": 0.0,
    "storageSize": 373_388,
    "backlogSize": 308_599,
    "publishers": [],
    "subscriptions": {},
}
GIB = 1 << 30


class Cluster:
    """Answers by path below `/admin/v2/`; a status instead of an answer is answered as such."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)

    def __call__(self, path: str) -> bytes | None:
        found = self.answers.get(path.removeprefix("/admin/v2/"), 404)
        if found == "silent":
            return None
        return failed(found) if isinstance(found, int) else ok(json.dumps(found), "application/json")


def stats_of(topic: str) -> str:
    return topic.replace("://", "/") + "/stats"


def backlogs(
    url: str, *topics: str, timeout: int = 60_000, quota: int = 0
) -> tuple[PulsarBacklogs, FakeContext]:
    context = FakeContext(ManualClock())
    for topic in topics:
        context.states[topic] = TopicState(TopicName(topic, "public/default"), 1)
    config = PulsarConfig(
        name="events",
        system="pulsar",
        bootstrap=["localhost:1"],  # type: ignore[arg-type]  # as the file has it
        listen={"port": 0},  # type: ignore[arg-type]
        admin=Admin(url=url),
        pressure=PressureConfig(backlog=BacklogConfig(timeout=timeout, quota=quota)),
    )
    context.config = config
    return PulsarBacklogs(config, context), context


@pytest.mark.seed("S5-022")
async def test_statistics_have_the_size_and_the_effective_quota() -> None:
    cluster = Cluster(
        {
            stats_of(ORDERS): {**STATS, "backlogQuotaLimitSize": 10 * GIB},
            stats_of(PART): {**STATS, "backlogSize": 0, "backlogQuotaLimitSize": -1},
        }
    )
    async with server(cluster) as api:
        source, _ = backlogs(api.url, ORDERS, PART, "non-persistent://public/default/now")
        assert await source.read() == {ORDERS: Backlog(308_599, 10 * GIB), PART: Backlog(0, 0)}
    assert len(api.asked) == 2


@pytest.mark.seed("S5-022")
@pytest.mark.parametrize(
    ("answers", "quota"),
    [
        ({f"{ORDERS}/backlogQuotaMap": {"destination_storage": {"limitSize": 5, "limitTime": -1}}}, 5),
        ({"namespaces/public/default/backlogQuotaMap": {"destination_storage": {"limit": 6}}}, 6),
        ({f"{ORDERS}/backlogQuotaMap": 405, "brokers": {"backlogQuotaDefaultLimitBytes": "7"}}, 7),
        ({"brokers": {"backlogQuotaDefaultLimitGB": "2", "backlogQuotaDefaultLimitBytes": "-1"}}, 2 * GIB),
        ({"brokers": {"backlogQuotaDefaultLimitBytes": "-1"}}, 0),
        ({f"{ORDERS}/backlogQuotaMap": {"message_age": {"limitTime": 5}}, "brokers": {}}, 0),
    ],
)
async def test_older_brokers_are_asked_for_topic_namespace_and_default(
    answers: dict[str, Any], quota: float
) -> None:
    paths = {
        ORDERS: ORDERS.replace("://", "/"),
        "brokers": "brokers/configuration/runtime",
    }
    found: dict[str, Any] = {stats_of(ORDERS): STATS, "namespaces/public/default/backlogQuotaMap": {}}
    for path, answer in answers.items():
        if path == "brokers":
            path = paths["brokers"]
        found[path.replace(ORDERS, paths[ORDERS])] = answer
    async with server(Cluster(found)) as api:
        source, context = backlogs(api.url, ORDERS)
        assert await source.read() == {ORDERS: Backlog(308_599, quota)}
        asked = len(api.asked)
        await source.read()
        assert len(api.asked) == asked + 1  # the quota holds for a minute, the size is asked again
        context.clock.advance(61)
        await source.read()
        assert len(api.asked) > asked + 2


@pytest.mark.seed("S5-022")
async def test_a_configured_quota_stands_in_where_pulsar_has_none() -> None:
    async with server(Cluster({stats_of(ORDERS): {**STATS, "backlogQuotaLimitSize": -1}})) as api:
        source, _ = backlogs(api.url, ORDERS, quota=GIB)
        assert await source.read() == {ORDERS: Backlog(308_599, GIB)}


async def test_only_topics_that_are_published_to_or_have_a_backlog_are_asked_about() -> None:
    quiet = {**STATS, "backlogSize": 0, "backlogQuotaLimitSize": 5}
    busy = {**STATS, "backlogQuotaLimitSize": 5}
    async with server(Cluster({stats_of(ORDERS): busy, stats_of(PART): quiet})) as api:
        source, context = backlogs(api.url, ORDERS, PART)
        for _ in range(3):
            await source.read()
        assert [path.count("parts") for path in api.asked].count(1) == 1
        context.states[PART].batched_messages += 1
        found = await source.read()
        assert [path.count("parts") for path in api.asked].count(1) == 2
        assert found.keys() == {ORDERS, PART}
        del context.states[ORDERS]
        assert (await source.read()).keys() == {PART}


@pytest.mark.seed("S5-054", "S5-055")
async def test_a_topic_that_cannot_be_asked_about_keeps_its_last_backlog() -> None:
    cluster = Cluster(
        {
            stats_of(ORDERS): {**STATS, "backlogQuotaLimitSize": 5},
            stats_of(PART): {**STATS, "backlogQuotaLimitSize": 5},
        }
    )
    async with server(cluster) as api:
        source, _ = backlogs(api.url, ORDERS, PART, timeout=2000)
        before = await source.read()
        wrong: list[Any] = [[1, 2], {"backlogSize": "many"}, {}, {**STATS, "backlogQuotaLimitSize": {}}]
        for trouble in (500, "silent", *wrong):
            cluster.answers[stats_of(PART)] = trouble
            assert await source.read() == before
        cluster.answers[stats_of(PART)] = 404
        assert (await source.read()).keys() == {ORDERS}


@pytest.mark.seed("S5-055")
@pytest.mark.parametrize("trouble", [500, 401, "silent"])
async def test_an_api_that_is_down_is_an_error_and_not_asked_a_thousand_times(trouble: object) -> None:
    topics = [f"persistent://public/default/t{place}" for place in range(100)]
    async with server(Cluster({stats_of(topic): trouble for topic in topics})) as api:
        source, _ = backlogs(api.url, *topics, timeout=2_000 if trouble == "silent" else 60_000)
        with pytest.raises(AdminApiError):
            await source.read()
    assert len(api.asked) == 8


async def test_the_plugin_offers_it_where_there_is_an_admin_api() -> None:
    async with server(Cluster({stats_of(ORDERS): {**STATS, "backlogQuotaLimitSize": 5}})) as api:
        _, context = backlogs(api.url, ORDERS)
        [source] = PulsarDriver().pressure_sources(context)
        assert (source.name, source.kind) == ("pulsar_backlog", "backlog")
        assert await source.read() == await source.read() == {ORDERS: Backlog(308_599, 5)}
        assert len(api.asked) == 1
        context.clock.advance(5)
        await source.read()
        assert len(api.asked) == 2
    context.config = context.config.model_copy(update={"admin": None})
    assert PulsarDriver().pressure_sources(context) == []


@pytest.mark.seed("S5-022")
async def test_topics_for_which_there_was_no_time_are_asked_about_next() -> None:
    """A reading that asked about all of many topics would be given up each time."""
    topics = [f"persistent://public/default/t{number}" for number in range(20)]
    clock = ManualClock()
    answers = Cluster({stats_of(topic): {**STATS, "backlogQuotaLimitSize": 1} for topic in topics})

    def slow(path: str) -> bytes | None:
        clock.advance(0.2)
        return answers(path)

    async with server(slow) as api:
        source, context = backlogs(api.url, *topics)
        context.clock = clock
        assert len(await source.read()) == 16
        assert sorted(await source.read()) == sorted(topics)
