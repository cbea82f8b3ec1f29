"""What the front says reaches the gateway's log."""

import asyncio
import logging

import pytest
from tests.kafka.session.wire import Bench

from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.front import KafkaFront
from sluicegate_kafka.listing import ListGroups


async def test_a_listing_that_fails_is_told_under_the_logger_of_the_gateway(
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
