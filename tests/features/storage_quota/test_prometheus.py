"""Usage from a Prometheus server: matched, bounded, and nothing believed that does not fit."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.features.storage_quota.conftest import PrometheusDouble
from tests.features.storage_quota.lab import WALL_MS, Context
from tests.gateway.certificates import Authority
from tests.gateway.lab import closed_port
from tests.waiting import LONG_S

from sluicegate.config.storage import StorageConfig
from sluicegate.features.storage_quota.quota import StorageQuota, StorageReadError
from sluicegate.features.storage_quota.sources import prometheus as module
from sluicegate.features.storage_quota.sources import reader
from sluicegate.features.storage_quota.sources.prometheus import PrometheusSource
from sluicegate.features.storage_quota.volumes import State

CAPACITY, FREE, USED = 'size_bytes{mount=~"/data.*"}', "avail_bytes", "used_bytes"


def config(prometheus: PrometheusDouble | str, **more: object) -> dict[str, object]:
    url = prometheus if isinstance(prometheus, str) else prometheus.url
    return {
        "source": "prometheus",
        "url": f"{url}/prometheus/",
        "capacity_query": CAPACITY,
        "timeout": LONG_S * 1_000,
        **({} if "consumed_query" in more else {"free_query": FREE}),
        **more,
    }


def source(prometheus: PrometheusDouble | str, **more: object) -> PrometheusSource:
    return PrometheusSource(StorageConfig.model_validate(config(prometheus, **more)), lambda: WALL_MS)


def series(broker: str, volume: str, value: object) -> tuple[dict[str, str], str]:
    return {"instance": broker, "mountpoint": volume, "job": "node"}, str(value)


@pytest.fixture
def filled(prometheus: PrometheusDouble) -> PrometheusDouble:
    prometheus.series = {
        CAPACITY: [series("b2", "/data/1", 200), series("b1", "/data/2", 100), series("b1", "/data/1", 1e2)],
        FREE: [series("b1", "/data/1", 40), series("b1", "/data/2", 10.0), series("b2", "/data/1", 0)],
    }
    return prometheus


@pytest.mark.seed("S4-007", "S4-034", "S4-070")
async def test_series_are_matched_by_node_and_volume(filled: PrometheusDouble) -> None:
    found = await source(filled).read()
    assert {
        broker: [(volume.name, volume.capacity, volume.consumed) for volume in usage.volumes]
        for broker, usage in found.items()
    } == {"b1": [("/data/1", 100, 60), ("/data/2", 100, 90)], "b2": [("/data/1", 200, 200)]}
    assert {usage.at_ms for usage in found.values()} == {WALL_MS}


async def test_bytes_in_use_other_labels_and_a_token(prometheus: PrometheusDouble) -> None:
    labels = {"pod": "kafka-0", "dir": "/data"}
    prometheus.series = {CAPACITY: [(labels, "100")], USED: [(labels, "64.7")]}
    asked = source(prometheus, consumed_query=USED, broker_label="pod", volume_label="dir", token="s3cret")
    found = await asked.read()
    assert (found["kafka-0"].volumes[0].name, found["kafka-0"].volumes[0].consumed) == ("/data", 64)
    assert set(prometheus.authorization) == {"Bearer s3cret"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({CAPACITY: []}, "capacity_query returns no volume"),
    "no usage": ({FREE: [series("b1", "/data/1", 1)]}, "broker b1 volume /data/2 has no usage"),
    "no capacity": (
        {CAPACITY: [series("b1", "/data/1", 1)]},
        "broker b1 volume /data/2 has no capacity",
    ),
    "twice": ({FREE: [series("b1", "/data/1", 1)] * 2}, "returns broker b1 volume /data/1 twice: sum it"),
    "NaN": ({FREE: [series("b1", "/data/1", "NaN")]}, "broker b1 volume /data/1 has nan bytes"),
    "infinite": ({CAPACITY: [series("b1", "/data/1", "+Inf")]}, "has inf bytes"),
    "negative": ({CAPACITY: [series("b1", "/data/1", -1)]}, "has -1.0 bytes"),
    "no label": (
        {CAPACITY: [({"instance": "b1"}, "1")]},
        "has no label 'mountpoint', its labels are: instance",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_reading_without_the_usage_of_each_volume_fails(filled: PrometheusDouble, name: str) -> None:
    changes, text = REFUSED[name]
    filled.series.update(changes)
    with pytest.raises(StorageReadError, match=text.replace("+", r"\+")):
        await source(filled).read()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b'{"status":"success"}',
        b'{"status":"success","data":{"resultType":"vector","result":[{}]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"instance":"b","mountpoint":"v"},'
        b'"value":[1]}]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":[],"value":[1,"1"]}]}}',
        b"[" * 100_000,
    ],
)
async def test_what_is_not_prometheus_fails_the_reading(filled: PrometheusDouble, body: bytes) -> None:
    filled.answers[FREE] = body
    with pytest.raises(StorageReadError):
        await source(filled).read()


async def test_scalars_and_errors_are_shown(filled: PrometheusDouble) -> None:
    filled.answers[FREE] = json.dumps(
        {"status": "success", "data": {"resultType": "scalar", "result": [1, "1"]}}
    ).encode()
    with pytest.raises(StorageReadError, match="must return an instant vector, not scalar"):
        await source(filled).read()
    filled.status = 503
    with pytest.raises(StorageReadError, match=r"/prometheus/api/v1/query answers 503 Service Unavailable"):
        await source(filled).read()


async def test_answers_are_bounded(filled: PrometheusDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_VOLUMES", 2)
    with pytest.raises(StorageReadError, match="more than 2 volumes"):
        await source(filled).read()
    filled.answers[CAPACITY] = b" " * (17 << 20)
    with pytest.raises(StorageReadError, match="an answer of more than 16777216 bytes"):
        await source(filled).read()


async def test_nobody_listens() -> None:
    with pytest.raises(StorageReadError, match=r"Connect call failed"):
        await source(f"http://127.0.0.1:{closed_port()}").read()


async def test_garbage_instead_of_http() -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\x01 220 smtp ready\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(garbage, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(StorageReadError, match=f"http://127.0.0.1:{port}/prometheus/api/v1/query: "):
            await source(f"http://127.0.0.1:{port}").read()


@pytest.mark.seed("S4-015", "S4-016")
async def test_slow_then_down_then_back(filled: PrometheusDouble) -> None:
    context = Context(config(filled), storage_hard_consumed_bytes=190, storage_soft_consumed_bytes=50)
    patient = reader(context.config.storage, context.wall_ms)
    hasty = reader(Context(config(filled, timeout="200ms")).config.storage, context.wall_ms)
    assert patient is not None
    assert hasty is not None
    quota = StorageQuota(context.as_context, lambda: patient() if filled.hold.is_set() else hasty())
    filled.series[FREE][-1] = series("b2", "/data/1", 80)

    async def run() -> State:
        await quota.run()
        return quota.verdict.state

    assert await run() is State.THROTTLE
    filled.hold.clear()  # answers wait now
    assert await run() is State.THROTTLE
    context.advance(301)
    assert await run() is State.PAUSE
    assert "does not answer within 0.2 s" in quota.verdict.why
    filled.hold.set()
    assert await run() is State.THROTTLE


async def test_a_certificate_authority_that_cannot_be_used_fails_the_reading(
    filled: PrometheusDouble, tmp_path: Path
) -> None:
    with pytest.raises(StorageReadError, match=r"absent\.pem': No such file or directory"):
        await source(filled, ca=str(tmp_path / "absent.pem")).read()
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(StorageReadError, match=r"ca\.pem' holds something else"):
        await source(filled, ca=str(tmp_path / "ca.pem")).read()


async def test_over_tls(filled: PrometheusDouble, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    filled.serve_tls(*authority.issue("server", "127.0.0.1"))
    url = filled.url.replace("http:", "https:")
    assert set(await source(url, ca=authority.ca).read()) == {"b1", "b2"}
    with pytest.raises(StorageReadError, match="certificate verify failed"):
        await source(url).read()
