"""Gates of several gateways that share one store, with a manual clock."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sluicegate.budgets import BudgetStoreError, Grant, Member, MemoryBudgets, MemoryBudgetStore, Request
from sluicegate.config.budgets_section import OnBudgetLost
from sluicegate.engine.factors import Factor
from sluicegate.engine.gate import Gate
from sluicegate.engine.state import BrokerState, TopicState
from sluicegate.leasing.away import Away
from sluicegate.leasing.holder import Holder
from sluicegate.leasing.places import PlaceHolder
from sluicegate.leasing.tokens import LeasedBuckets
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.testing.context import ManualContext
from sluicegate.testing.gates import TOPIC, build_gate

MS = 1_000_000
LEASE_NS = 200 * MS
MEMBER_NS = 3_000 * MS
_STEP_NS = MS


class Network(MemoryBudgetStore):
    """A store behind a network that loses calls, answers or both."""

    failing = ""
    """`request` or `answer`, whichever is lost; empty if none is."""
    on_the_way: Callable[[], None] = staticmethod(lambda: None)
    """Called while a call is under way, before and after the store has it."""
    calls = 0

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        self.calls += 1
        self.on_the_way()
        self._lose("request")
        grants = await super().reserve(requests)
        self.on_the_way()
        self._lose("answer")
        return grants

    async def join(self, member: Member) -> int:
        self._lose("request")
        members = await super().join(member)
        self._lose("answer")
        return members

    def _lose(self, what: str) -> None:
        if self.failing == what:
            raise BudgetStoreError(f"the {what} was lost")


def finished(call: Awaitable[None]) -> None:
    """Run a coroutine that waits for nothing."""
    steps = call.__await__()
    try:
        next(steps)
    except StopIteration:
        return
    raise AssertionError("it waits for something")


@dataclass
class Gateway:
    """One gate and its holder."""

    gate: Gate
    state: TopicState
    holder: Holder
    network: Network
    is_stopped: bool = False
    held: list[tuple[int, Operation]] = field(default_factory=list)
    """Operations that wait, with the times of their next attempts."""


@dataclass
class Fleet:
    """Gateways of one store.

    :param policies: of the topic at each of them, as in the file.
    """

    policies: Mapping[str, object]
    gateways: int = 1
    on_lost: OnBudgetLost = "share"
    factors: Mapping[str, float] = field(default_factory=dict)
    """What factors leave of all publish rates, by name."""
    lease_ns: int = LEASE_NS
    now_ns: int = 1_000_000_000_000
    admitted: list[tuple[int, int]] = field(default_factory=list)
    """Times and messages of what passed anywhere."""
    admitted_bytes: list[tuple[int, int]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    members: list[Gateway] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start all of them; the store began long ago."""
        self.budgets = MemoryBudgets(self.lease_ns // 1000, MEMBER_NS // 1000, lambda: self.now_ns // 1000)
        self.now_ns += 3_600_000_000_000
        for _ in range(self.gateways):
            self.start()

    def start(self) -> Gateway:
        """Start one more."""
        name = f"gateway {len(self.members)}"
        network = Network(self.budgets, name)
        tokens = LeasedBuckets("broker", self.lease_ns)
        away = Away(self.on_lost, self.lease_ns, MEMBER_NS, self.now_ns)
        member = Member(name, "broker/0", name)
        places = PlaceHolder(network, "broker", name, MEMBER_NS, "share", lambda: 0, lambda: self.now_ns)
        holder = Holder(network, tokens, places, away, lambda: member, lambda: self.now_ns)
        state = TopicState(TOPIC, self.now_ns, BrokerState(tokens))
        context = ManualContext() if self.factors else None
        for factor, value in self.factors.items():
            assert context is not None
            context.factors.add(made := Factor(factor, "Wait."))
            made.set(value, "a test")
        gate = build_gate(self.policies, now_ns=self.now_ns, state=state, context=context)
        started = Gateway(gate, state, holder, network)
        self.members.append(started)
        return started

    def turn(self, who: Gateway) -> None:
        """Make the calls that are due at one."""
        finished(who.holder.turn())

    def offer(self, who: Gateway, messages: int = 1, nbytes: int = 0, **more: object) -> Decision | None:
        """Publish, or wait if it is delayed."""
        op = Operation(OperationKind.PUBLISH, TOPIC.full, messages=messages, bytes=nbytes, largest=nbytes)
        for name, value in more.items():
            setattr(op, name, value)
        return self._decide(who, op)

    def _decide(self, who: Gateway, op: Operation) -> Decision | None:
        decision = who.gate.decide(op, self.now_ns)
        if decision is None:
            self.admitted.append((self.now_ns, op.messages))
            self.admitted_bytes.append((self.now_ns, op.bytes))
        else:
            self.decisions.append(decision)
            if decision.action is Action.DELAY:
                who.held.append((self.now_ns + decision.delay_ns, op))
        return decision

    def retry(self, who: Gateway) -> None:
        """Decide again what has waited for long enough."""
        due = [each for each in who.held if each[0] <= self.now_ns]
        who.held = [each for each in who.held if each[0] > self.now_ns]
        for _, op in due:
            self._decide(who, op)

    def pass_time(
        self, for_ns: int, step_ns: int = _STEP_NS, each_step: Callable[[], None] = lambda: None
    ) -> None:
        """Let time pass; all that are not stopped do what is due."""
        end_ns = self.now_ns + for_ns
        while self.now_ns < end_ns:
            self.now_ns = min(end_ns, self.now_ns + step_ns)
            each_step()
            for who in self.members:
                if not who.is_stopped:
                    self.turn(who)
                    self.retry(who)

    def passed(self, since_ns: int = 0) -> int:
        """Messages that passed since a time."""
        return sum(messages for at_ns, messages in self.admitted if at_ns >= since_ns)
