"""A subscription that is Danube's own to keep to one consumer, whatever the policies leave room for."""

from pathlib import Path

import grpc.aio
import pytest
from danube import SubType
from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.gates import gate, on_topic

from sluicegate.model import Action
from sluicegate_danube.reference import ReferenceBroker


@pytest.mark.seed("S1-039")
async def test_an_exclusive_subscription_keeps_to_one_consumer(
    reference: ReferenceBroker, topic: str, tmp_path: Path
) -> None:
    policies = on_topic(topic, max_consumers_per_topic=5, max_consumers_per_subscription=5)
    async with (
        gate(tmp_path, reference.addresses, policies) as through,
        danube_client(through.url) as client,
        producing(client, topic, reliable=True) as producer,
    ):
        async with consuming(client, topic, "mine", "first", kind=SubType.EXCLUSIVE) as first:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async with consuming(client, topic, "mine", "second", kind=SubType.EXCLUSIVE, max_retries=1):
                    raise AssertionError("was let in")
            assert "is Exclusive and has a consumer" in str(refused.value.details())
            await producer.send(b"for the first")
            assert await first.take(1) == [b"for the first"]
        async with consuming(client, topic, "mine", "second", kind=SubType.EXCLUSIVE):
            assert reference.consumers(topic, "mine") == ["second"]
        rejected = [decision for decision in through.sink.decisions if decision.action is Action.REJECT]
        assert rejected == []
