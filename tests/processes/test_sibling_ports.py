"""Workers that meet different brokers at the same moment: each broker gets a port of its own."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import closing
from functools import partial, partialmethod
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.broker import UNIQUE_FACT
from sluicegate.broker.broker_ports import BrokerPorts
from sluicegate.net.listening.latch import Term
from sluicegate.processes.child import WorkerProcess
from sluicegate.processes.sibling_workers import worker_processes
from sluicegate.runtime.facts import Facts, keep_for_workers
from sluicegate_danube.brokers import address_of
from sluicegate_danube.config import DanubeConfig
from sluicegate_kafka.cluster.nodes import NODE, Nodes
from sluicegate_kafka.config import KafkaConfig

_ENTRY = {"name": "b", "bootstrap": ["first:9092"], "listen": {"port": 19_000}, "known_brokers": ["*"]}


class Pulsars:
    """What one worker knows of brokers that are known by their addresses."""

    def __init__(self, remember: Callable[[str, str], None]) -> None:
        self.ports = BrokerPorts(DanubeConfig.model_validate({**_ENTRY, "system": "danube"}), {}, address_of)
        self.ports.start()
        self.ports.on_new = lambda key, value, listener: remember(key, value)

    def meet(self, number: int) -> None:
        self.ports.port_of(f"broker{number}:9092")

    def hear(self, key: str, value: str) -> None:
        self.ports.heard({"key": key, "value": value})

    def port(self, number: int) -> int:
        address = self.ports.port_of(f"broker{number}:9092")
        assert address is not None
        return address[1]


class Kafkas:
    """What one worker knows of nodes whose ids are no numbers of ports."""

    def __init__(self, remember: Callable[[str, str], None]) -> None:
        self.nodes = Nodes(KafkaConfig.model_validate({**_ENTRY, "system": "kafka"}))
        self._remember = remember
        self.nodes.on_change = self._changed

    def _changed(self, node_id: int) -> None:
        self._remember(f"{UNIQUE_FACT}{self.nodes.number(node_id)}", f"{NODE}{node_id}")

    def meet(self, number: int) -> None:
        self.nodes.named({100_000 + number: (f"broker{number}", 9092)})

    def hear(self, key: str, value: str) -> None:
        self.nodes.owned(int(key.removeprefix(UNIQUE_FACT)), int(value.removeprefix(NODE)))

    def port(self, number: int) -> int:
        self.meet(number)
        return self.nodes.number(100_000 + number)


Front: TypeAlias = Pulsars | Kafkas


class Host:
    """The supervisor's end of three workers; what each tells the other waits until it is taken."""

    def __init__(self, front: type[Front], monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: dict[str, str] = {}
        entry = KafkaConfig.model_validate({**_ENTRY, "system": "kafka", "workers": 3})
        keep = partial(keep_for_workers, self.kept)
        for way in ("tell", "tell_soon"):
            monkeypatch.setattr(WorkerProcess, way, partialmethod(self._tell_of, self))
        self.workers = worker_processes(entry, dict, keep, (), 0, Term.begun())
        self.said = [deque[tuple[str, str]]() for _ in self.workers]
        self.to_hear = [deque[tuple[str, str]]() for _ in self.workers]
        self.facts = [Facts({}, self._sayer(said)) for said in self.said]
        self.fronts = [front(each.remember) for each in self.facts]

    @staticmethod
    def _sayer(said: deque[tuple[str, str]]) -> Callable[[str, str], None]:
        return lambda key, value: said.append((key, value))

    @staticmethod
    def _tell_of(worker: WorkerProcess, host: "Host", kind: str, **content: Any) -> None:
        assert kind == "fact"
        host.to_hear[host.workers.index(worker)].append((content["key"], content["value"]))

    def hear_supervisor(self, worker: int) -> None:
        """A worker takes the next message of the supervisor."""
        if self.to_hear[worker]:
            key, value = self.to_hear[worker].popleft()
            self.facts[worker].learn(key, value)
            self.fronts[worker].hear(key, value)

    def hear_worker(self, worker: int) -> None:
        """The supervisor takes the next message of a worker."""
        if self.said[worker]:
            key, value = self.said[worker].popleft()
            self.workers[worker]._take({"kind": "fact", "key": key, "value": value})

    def settle(self) -> None:
        for _ in range(1_000):
            for worker in range(len(self.workers)):
                self.hear_worker(worker)
                self.hear_supervisor(worker)
        assert not any(self.said)
        assert not any(self.to_hear)

    def close(self) -> None:
        sibling = self.workers[0]._sibling
        assert sibling is not None
        sibling.close()


@pytest.mark.parametrize("front", [Pulsars, Kafkas])
async def test_brokers_that_are_met_at_once_get_ports_of_their_own(
    front: type[Front], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Host(front, monkeypatch)) as host:
        for index, worker in enumerate(host.fronts):
            worker.meet(index)
        host.settle()
        ports = [worker.port(index) for index, worker in enumerate(host.fronts)]
        assert len(set(ports)) == 3
        assert len(host.kept) == 3
        for worker in host.fronts:
            assert [worker.port(number) for number in range(3)] == ports


_STEP = st.tuples(st.sampled_from(["meet", "say", "hear"]), st.integers(0, 2), st.integers(0, 3))


@pytest.mark.parametrize("front", [Pulsars, Kafkas])
@given(steps=st.lists(_STEP, max_size=30))
def test_no_port_stands_for_two_brokers(front: type[Front], steps: list[tuple[str, int, int]]) -> None:
    async def play() -> None:
        with pytest.MonkeyPatch.context() as patch, closing(Host(front, patch)) as host:
            for what, worker, number in steps:
                if what == "meet":
                    host.fronts[worker].meet(number)
                elif what == "say":
                    host.hear_worker(worker)
                else:
                    host.hear_supervisor(worker)
            for each in host.fronts:
                for number in range(4):
                    each.meet(number)
            host.settle()
            brokers_of: dict[int, set[int]] = {}
            for each in host.fronts:
                for number in range(4):
                    brokers_of.setdefault(each.port(number), set()).add(number)
            assert all(len(brokers) == 1 for brokers in brokers_of.values())

    asyncio.run(play())
