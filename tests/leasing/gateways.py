"""Gateways that share limits on counts, in one process and on a clock that only moves when told to."""

from collections.abc import Mapping, Sequence

from sluicegate.budgets import BudgetStoreError, Grant, MemoryBudgets, MemoryBudgetStore, Place, Request
from sluicegate.config.budgets_section import OnBudgetLost
from sluicegate.engine.state import BrokerState, TopicState
from sluicegate.leasing.places import PlaceHolder
from sluicegate.model import Action, Operation, OperationKind, TopicName
from sluicegate.testing import RecordingSink, build_gate

S = 1_000_000_000
MS = 1_000_000
LEASE_NS = 3 * S
TOPIC = TopicName("orders.eu", "orders")


class FragileStore(MemoryBudgetStore):
    """A store that can be away, and whose answers can be lost."""

    is_away = False
    loses_answers = False
    held = 0
    """Calls that took or kept places."""

    async def hold(self, places: Sequence[Place]) -> Sequence[int]:
        self._fail(self.is_away)
        answers = await super().hold(places)
        self.held += 1
        self._fail(self.loses_answers)
        return answers

    async def release(self, places: Sequence[Place]) -> None:
        self._fail(self.is_away)
        await super().release(places)
        self._fail(self.loses_answers)

    async def taken(self, limits: Sequence[str]) -> Sequence[int]:
        self._fail(self.is_away)
        return await super().taken(limits)

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        raise NotImplementedError

    @staticmethod
    def _fail(fails: bool) -> None:
        if fails:
            raise BudgetStoreError("no answer in time")


class Fleet:
    """A store and its gateways."""

    def __init__(self, policies: Mapping[str, object], on_lost: OnBudgetLost = "share") -> None:
        self.now_ns = 100 * S
        self.budgets = MemoryBudgets(200_000, LEASE_NS // 1000, lambda: self.now_ns // 1000)
        self.now_ns += LEASE_NS  # the store knows by now of all places
        self.policies = dict(policies)
        self.on_lost = on_lost
        self.gateways: list[Gateway] = []

    def add(self, name: str) -> "Gateway":
        """Start a gateway."""
        gateway = Gateway(self, name)
        self.gateways.append(gateway)
        return gateway

    async def wait(self, ns: int) -> None:
        """Let time pass, in which all gateways talk to the store."""
        end_ns = self.now_ns + ns
        while self.now_ns < end_ns:
            self.now_ns = min(self.now_ns + 100 * MS, end_ns)
            for gateway in self.gateways:
                await gateway.holder.turn()


class Gateway:
    """The gate of one topic at one gateway."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet = fleet
        self.name = name
        self.store = FragileStore(fleet.budgets, name)
        self.holder = PlaceHolder(
            self.store,
            "broker",
            name,
            LEASE_NS,
            fleet.on_lost,
            lambda: len(fleet.gateways),
            lambda: fleet.now_ns,
        )
        broker = BrokerState()
        broker.places = self.holder
        self.state = TopicState(TOPIC, fleet.now_ns, broker)
        self.sink = RecordingSink()
        self.compile()

    def compile(self) -> None:
        """Compile the gate of the fleet's policies."""
        self.gate = build_gate(
            self.fleet.policies, now_ns=self.fleet.now_ns, topic=TOPIC, sink=self.sink, state=self.state
        )

    def decide(self, op: Operation) -> str:
        """Decide once: `in`, `asking`, or `out`."""
        decision = self.gate.decide(op, self.fleet.now_ns)
        if decision is None:
            return "in"
        return "asking" if decision.action is Action.DELAY else "out"

    async def attach(self, op: Operation) -> str:
        """Decide, as a door does: again once the store has answered."""
        answer = self.decide(op)
        if answer == "asking":
            await self.holder.turn()
            answer = self.decide(op)
        return answer


def producer(name: str, *, roams: bool = True) -> Operation:
    """An operation that attaches a producer."""
    return Operation(OperationKind.ATTACH_PRODUCER, TOPIC.full, client="c", producer=name, roams=roams)


def consumer(name: str, subscription: str = "s", *, roams: bool = True) -> Operation:
    """An operation that attaches a consumer."""
    kind = OperationKind.ATTACH_CONSUMER
    return Operation(kind, TOPIC.full, client="c", subscription=subscription, consumer=name, roams=roams)


def creation(subscription: str) -> Operation:
    """An operation that creates a subscription."""
    return Operation(OperationKind.CREATE_SUBSCRIPTION, TOPIC.full, client="c", subscription=subscription)
