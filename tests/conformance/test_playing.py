"""What the suite records of clients that leave, at a door whose clients are calls of gates."""

import asyncio
from pathlib import Path
from time import monotonic_ns
from typing import Any

from tests.conformance.policing import Policed
from tests.danube.support.gates import write_file

from sluicegate.embedded import PolicyEngine
from sluicegate.model import ANONYMOUS, Operation, OperationKind
from sluicegate.testing.conformance.playing import play
from sluicegate.testing.conformance.replaying import Replay
from sluicegate.testing.conformance.scenarios import Scenario
from sluicegate.testing.conformance.steps import Leave, Subscribe
from sluicegate.testing.sink import RecordingSink

TOPIC = "/default/left"
LIMIT = "max_consumers_per_topic"


class FetchesOnceMore:
    """A consumer that attaches once more when it has left, for a moment, as Kafka's may."""

    def __init__(self, policed: Policed, subscription: str, name: str) -> None:
        self._gate = policed.gates.get(TOPIC, False, monotonic_ns())
        self._names = (TOPIC, ANONYMOUS, name)
        self._op = self._attach(subscription)

    def _attach(self, subscription: str) -> Operation:
        op = Operation(OperationKind.ATTACH_CONSUMER, *self._names, subscription=subscription, consumer="c")
        assert self._gate.decide(op, monotonic_ns()) is None
        return op

    async def close(self) -> None:
        self._gate.detach(self._op)
        last = self._attach("")
        asyncio.get_running_loop().call_later(0.01, self._gate.detach, last)


class Door(Policed):
    """A door with such consumers."""

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> FetchesOnceMore:
        return FetchesOnceMore(self, subscription, name)


def test_a_client_that_attaches_as_it_leaves_is_replayed_so(tmp_path: Path) -> None:
    policies = {"topics": [{"name": TOPIC, LIMIT: 1}]}
    file, sink = write_file(tmp_path, ["127.0.0.1:1"], policies, {}), RecordingSink()
    steps = [Subscribe(who="a"), Leave(who="a"), Subscribe(who="b")]
    scenario = Scenario(name="leaving", shows=[LIMIT], policies={LIMIT: 1}, steps=steps)
    with PolicyEngine.from_file(file, sink=sink) as engine:
        door: Any = Door(file, sink, engine.gates, tells_reasons=True)  # nothing publishes
        played = asyncio.run(play(scenario, door, TOPIC))
        assert played.error is None
        assert played.counts["consumers"] == 1
        assert list(Replay(file).differences(played)) == []
