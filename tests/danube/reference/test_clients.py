"""Danube's own client at the reference broker."""

import pytest
from danube import DanubeClient, SubType
from tests.danube.support.clients import consuming, producing


@pytest.mark.parametrize("reliable", [False, True])
@pytest.mark.parametrize("kind", list(SubType))
async def test_what_is_published_is_received(
    client: DanubeClient, topic: str, kind: SubType, reliable: bool
) -> None:
    async with (
        producing(client, topic, reliable=reliable) as producer,
        consuming(client, topic, kind=kind) as consumer,
    ):
        sent = [f"message {number}".encode() for number in range(50)]
        for payload in sent:
            await producer.send(payload)
        assert await consumer.take(50) == sent
