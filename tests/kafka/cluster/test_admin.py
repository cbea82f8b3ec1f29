"""The gateway's own requests, as far as they can be checked without a broker."""

from io import BytesIO
from typing import Any

import pytest
from aiokafka.protocol.struct import Struct

from sluicegate_kafka.cluster import admin as rooms
from sluicegate_kafka.cluster.admin import Admin


@pytest.mark.seed("S4-031")
async def test_the_nodes_are_asked_for_without_any_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    answer = rooms._Rights(
        throttle_time_ms=0,
        brokers=[(2, "b2", 9092, None), (1, "b1", 9092, "rack")],
        cluster_id="c",
        controller_id=1,
        topics=[],
        cluster_authorized_operations=0,
    ).encode()

    async def send(_: Admin, request: Any, node_id: int | None = None) -> Struct:
        asked.append(request.build(rooms._RightsRequest))
        return rooms._Rights.decode(BytesIO(answer))

    monkeypatch.setattr(Admin, "_send_request", send)
    assert await Admin.node_ids(Admin.__new__(Admin)) == [2, 1]
    [request] = asked
    assert (request.topics, request.allow_auto_topic_creation) == ([], False)
