"""`Calls` over gates with the product's own policies, and a clock that is an argument."""

from typing import Any

from tests.grpc.lab import MAP, TOPIC, P

from sluicegate.engine.gate import Gate
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Decision, Method, TopicName
from sluicegate.sessions.work import Ask, Running
from sluicegate.testing import RecordingSink, build_gate
from sluicegate_grpc.semantics.calls import Attaching, Attachments, Caller, Calls, Stream
from sluicegate_grpc.semantics.fields import Values

SECOND = 1_000_000_000
GHOST_NS = 30 * SECOND


def method(name: str) -> Method:
    return MAP.methods[P + name]


def values(**found: Any) -> Values:
    made = Values()
    for name, value in found.items():
        setattr(made, name, value)
    return made


class Lab:
    """One topic's gate at a time, and calls over it."""

    def __init__(
        self,
        methods: Any = MAP,
        *,
        limit: int = 100_000,
        list_valid_ns: int | None = None,
        most_callers: int | None = None,
        **policies: object,
    ) -> None:
        self.sink = RecordingSink()
        self.policies = {name.replace("__", "."): value for name, value in policies.items()}
        self._gates: dict[tuple[str, bool], Gate] = {}
        self.attachments = Attachments(self.gate, GHOST_NS, limit, list_valid_ns, most_callers)
        self.calls = Calls(methods, self.attachments)
        self.me = Caller("me", "peer:1")

    def gate(self, topic: str = TOPIC, exempt: bool = False, now_ns: int = 0) -> Gate:
        gate = self._gates.get((topic, exempt))
        if gate is None:
            other = self._gates.get((topic, not exempt))
            gate = self._gates[topic, exempt] = build_gate(
                self.policies,
                now_ns=now_ns,
                topic=TopicName(topic, "default"),
                sink=self.sink,
                exempt=exempt,
                state=other.state if other is not None else None,
            )
        return gate

    @property
    def producers(self) -> int:
        return len(self.gate().state.producers)

    @property
    def consumers(self) -> int:
        return self.gate().state.consumer_count

    @property
    def unacked(self) -> dict[str, int]:
        return self.gate().state.subscription("s").unacked

    def ask_producer(self, name: str, caller: Caller | None = None, now_ns: int = 0, **more: Any) -> "Asking":
        found = values(topic=TOPIC, producer=name, reliable=1)
        found.__dict__.update(more)
        return Asking(self, self.calls.attaching(method("Create"), found, caller or self.me), now_ns)

    def producer(
        self, name: str, called: int, caller: Caller | None = None, now_ns: int = 0, **more: Any
    ) -> None:
        self.ask_producer(name, caller, now_ns, **more).attached(called, now_ns)

    def ask_consumer(self, name: str, caller: Caller | None = None, now_ns: int = 0, **more: Any) -> "Asking":
        found = values(topic=TOPIC, subscription="s", consumer=name)
        found.__dict__.update(more)
        return Asking(self, self.calls.attaching(method("Subscribe"), found, caller or self.me), now_ns)

    def consumer(
        self, name: str, called: int, caller: Caller | None = None, now_ns: int = 0, **more: Any
    ) -> None:
        self.ask_consumer(name, caller, now_ns, **more).attached(called, now_ns)

    def publish(self, producer: int | str, caller: Caller | None = None, now_ns: int = 0, **more: Any) -> Any:
        found = values(producer=producer, payload=10)
        found.__dict__.update(more)
        return self.calls.publish(method("Send"), found, caller or self.me, now_ns)[1]


def opens(stream: Stream, now_ns: int) -> bool:
    """Whether a stream may open, which is decided at once."""
    work: Running[Decision | None] = Running(now_ns)
    return work.begin(stream.admit(work, Hold(0))) is None


class Asking:
    """A call that attaches a producer or a consumer: decided, or waiting for its decision."""

    def __init__(self, lab: Lab, attaching: Attaching, now_ns: int) -> None:
        self.attaching = attaching
        self._attachments = lab.attachments
        self._work: Running[Decision | None] = Running(now_ns)
        work = lab.attachments.admit(attaching, self._work, Hold(10 * SECOND), "the subscriptions")
        self._made = self._work.begin(work)

    @property
    def waits(self) -> object:
        """What it waits for; None if it is decided."""
        return self._work.waits if isinstance(self._made, Running) else None

    @property
    def must_list(self) -> bool:
        return isinstance(self.waits, Ask)

    @property
    def decision(self) -> Decision | None:
        """The decision, which must be there."""
        assert not isinstance(self._made, Running), self.waits
        return self._made

    def again(self, now_ns: int) -> Decision | None:
        """What it waits for has come."""
        self._made = self._work.go_on(now_ns)
        return self.decision

    def closed(self, now_ns: int = 0) -> None:
        """The call ends without having been forwarded."""
        if self.waits is None:
            self._attachments.failed(self.attaching, now_ns)
        self._work.close(now_ns)

    def attached(self, called: int, now_ns: int = 0) -> None:
        """The broker has accepted it."""
        assert self.decision is None
        self._attachments.attached(self.attaching, called, now_ns)

    def failed(self, now_ns: int = 0, *, is_known: bool = True) -> None:
        """The call has ended before the gate's decision, or after the broker's."""
        self._work.close(now_ns)
        self._attachments.failed(self.attaching, now_ns, is_known=is_known)
