"""The front's own requests to the broker, and the listeners that it has for nodes."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
from tests.kafka.session.wire import SECOND, Bench

from sluicegate.broker import Listener
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.front import KafkaFront
from sluicegate_kafka.session.shared.listing import ListGroups

ENTRY = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}


@pytest.mark.parametrize(
    ("identity", "opened"),
    [
        ({"username": "gate", "password": "secret"}, ["bootstrap", "node-1"]),
        ({"bootstrap": ["b:9091"]}, ["bootstrap"]),
    ],
)
async def test_brokers_at_the_gateways_own_listener_are_no_nodes_for_clients(
    identity: dict[str, object], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    front, bench = KafkaFront(KafkaConfig.model_validate(ENTRY | {"identity": identity})), Bench()
    listeners: list[str] = []

    async def listen(listener: Listener) -> None:
        listeners.append(listener.name)

    async def nodes() -> dict[int, tuple[str, int]]:
        return {1: ("b", 9091)}

    monkeypatch.setattr(bench, "listen", listen)
    monkeypatch.setattr(front._upstream, "nodes", nodes)
    await front.start(bench)
    front.reached()
    for task in bench._spawned:  # one may spawn another
        await task
    assert listeners == opened
    await front.stop()


class Keeping(Bench):
    """Services that keep facts and the names of open listeners."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[str, str] = {}
        self.listeners: dict[str, int] = {}

    async def listen(self, listener: Listener) -> None:
        self.listeners[listener.name] = listener.port

    def stop_listening(self, name: str) -> None:
        del self.listeners[name]

    def remember(self, key: str, value: str) -> None:
        self.facts[key] = value
        if not value:
            del self.facts[key]

    def recall(self, prefix: str) -> dict[str, str]:
        return {key: value for key, value in self.facts.items() if key.startswith(prefix)}

    async def front(self) -> KafkaFront:
        front = KafkaFront(KafkaConfig.model_validate(ENTRY))
        self.listeners.clear()
        await front.start(self)
        await self.settled()
        return front

    async def settled(self) -> None:
        for task in self._spawned:
            await task


async def test_ports_of_nodes_stay_over_a_restart_until_the_nodes_are_gone() -> None:
    bench = Keeping()
    front = await bench.front()
    nodes = {2: ("b", 1), 100_000: ("b", 2), 100_001: ("b", 3)}
    front._nodes.listed(nodes)
    await bench.settled()
    ports = {"bootstrap": 19_000, "node-2": 19_003, "node-100000": 19_001, "node-100001": 19_002}
    assert bench.listeners == ports
    assert bench.facts == {
        "node.2": "b:1",
        "node.100000": "b:2",
        "node.100001": "b:3",
        "broker.0": "node-100000",
        "broker.1": "node-100001",
    }
    await front.stop()
    front = await bench.front()
    assert bench.listeners == ports
    assert len(front.notes) == 2
    front._nodes.listed({100_001: ("b", 3)})
    session = front.session(Listener("node-2", "", 0, ()), "10.0.0.1:5", 0)
    for minute in range(12):
        for _ in range(10):
            front.tick(1 + minute * 60 * SECOND)
    assert bench.listeners == {name: ports[name] for name in ("bootstrap", "node-2", "node-100001")}
    session.closed(0)
    for _ in range(10):
        front.tick(12 * 60 * SECOND)
    await bench.settled()
    assert bench.facts == {"node.100001": "b:3", "broker.1": "node-100001"}
    front._nodes.listed({100_001: ("b", 3), 100_002: ("b", 4)})
    await bench.settled()
    assert bench.listeners == {"bootstrap": 19_000, "node-100001": 19_002, "node-100002": 19_001}
    await front.stop()


async def test_concurrent_questions_share_one_request_to_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    front = KafkaFront(KafkaConfig.model_validate(ENTRY))
    asked = 0
    told = asyncio.Event()

    async def nodes() -> dict[int, tuple[str, int]]:
        return {}

    async def groups() -> dict[str, set[str]]:
        nonlocal asked
        asked += 1
        await told.wait()
        return {"t": {"g"}}

    monkeypatch.setattr(front._upstream, "nodes", nodes)
    monkeypatch.setattr(front._upstream, "groups_by_topic", groups)
    await front.start(Bench())
    impatient, *others = [asyncio.ensure_future(front.answer(ListGroups())) for _ in range(5)]
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    now_ns = time.monotonic_ns()
    told.set()
    await asyncio.gather(*others)
    assert asked == 1
    assert front._started.learned.listing.fresh("t", now_ns)
    await front.answer(ListGroups())
    assert asked == 2
    await front.stop()


async def test_workers_tell_each_other_of_nodes_and_records() -> None:
    told: list[tuple[str, Mapping[str, Any]]] = []
    one, other = Keeping(), Keeping()
    one.siblings = other.siblings = 1
    one.tell_siblings = other.tell_siblings = lambda kind, content: told.append((kind, content))  # type: ignore[method-assign]
    speaking, hearing = await one.front(), await other.front()
    speaking._nodes.named({70_000: ("b", 9093)})
    learned = speaking._started.learned, hearing._started.learned
    learned[0].arrivals.note(("t", 0), 0, 1, 1_000, 1_001, 60_000)
    await one.settled()
    assert [kind for kind, _ in told] == ["node", "arrivals"]
    for kind, content in told:
        hearing.heard(kind, content)
    await other.settled()
    assert len(told) == 2, "what is heard is not told again"
    assert hearing._nodes.number(70_000) == speaking._nodes.number(70_000)
    assert learned[1].arrivals.covers(("t", 0), 1)
    port = other.listeners["node-70000"]
    hearing.heard("broker.", {"key": f"broker.{port - 19_001}", "value": "node-80000"})
    await other.settled()
    assert other.listeners["node-70000"] == port + 1, "a sibling was first to give that port away"
    hearing._nodes.named({80_000: ("b", 9094)})
    await other.settled()
    assert other.listeners["node-80000"] == port
    await speaking.stop()
    await hearing.stop()


@pytest.mark.parametrize(("tls", "keys"), [({}, 2), ({"client": {"cert": "c", "key": "k"}}, 1)])
def test_connections_of_one_client_have_one_key(tls: dict[str, object], keys: int) -> None:
    front = KafkaFront(KafkaConfig.model_validate(ENTRY | {"tls": tls}))
    listener = Listener("bootstrap", "", 0, ())
    first = bytes.fromhex("0000000d 0003 0000 00000001 0001")
    found = {front.affinity(listener, "h", first + client_id) for client_id in (b"a", b"b", b"a")}
    assert len(found) == keys
    assert front.affinity(listener, "h", first + b"a") != front.affinity(listener, "g", first + b"a")
