"""Messages of the front reach the gateway's log."""

import asyncio
import logging

import pytest
from aiokafka.errors import SaslAuthenticationFailed
from tests.kafka.session.wire import Bench

from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.front import KafkaFront
from sluicegate_kafka.session.shared.listing import ListGroups


async def test_a_failed_listing_is_logged_by_the_gateway(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    front = KafkaFront(
        KafkaConfig.model_validate(
            {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}
        )
    )

    async def fails() -> None:
        raise ConnectionError("nobody there")

    monkeypatch.setattr(front._upstream, "groups_by_topic", fails)
    monkeypatch.setattr(front._upstream, "nodes", fails)
    with caplog.at_level(logging.INFO, logger="sluicegate.kafka"):
        await front.start(Bench())
        front.reached()
        await asyncio.sleep(0)
        await front.answer(ListGroups())
    await front.stop()
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert {record.name.split(".")[0] for record in caplog.records} == {"sluicegate"}
    assert "cannot list consumer groups: nobody there" in caplog.text


async def test_clients_cause_neither_log_lines_nor_logins_while_the_broker_refuses_the_gateway(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}
    front = KafkaFront(KafkaConfig.model_validate(entry))
    logins = 0

    async def refused() -> None:
        nonlocal logins
        logins += 1
        raise SaslAuthenticationFailed("invalid credentials")

    monkeypatch.setattr(front._upstream, "_connected", refused)
    await front.start(Bench())
    for _ in range(100):
        await front.answer(ListGroups())
    await front.stop()
    assert logins < 10  # a slow machine sees the first waits end
    assert len([line for line in caplog.messages if "invalid credentials" in line]) == logins
    assert front.counters()["group_listing_put_off"] == 100 - logins


async def test_unknown_groups_are_logged_even_after_another_failure(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}
    front = KafkaFront(KafkaConfig.model_validate(entry))

    async def refused() -> None:
        raise SaslAuthenticationFailed("invalid credentials")

    monkeypatch.setattr(front._upstream, "_connected", refused)
    monkeypatch.setattr(front._upstream, "_now_ns", lambda: 1)
    await front.start(Bench())
    with pytest.raises(SaslAuthenticationFailed):
        await front._upstream.nodes()
    for _ in range(10):
        await front.answer(ListGroups())
    await front.stop()
    [line] = [line for line in caplog.messages if "cannot list consumer groups" in line]
    assert "invalid credentials" in line
