"""`Calls` over gates with the product's own policies, and a clock that is an argument."""

from typing import Any

from tests.grpc.lab import MAP, TOPIC, P

from sluicegate.engine.gate import Gate
from sluicegate.model import Method, TopicName
from sluicegate.testing import RecordingSink, build_gate
from sluicegate_grpc.semantics.calls import Attaching, Attachments, Caller, Calls
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

    def ask_producer(
        self, name: str, caller: Caller | None = None, now_ns: int = 0, **more: Any
    ) -> Attaching:
        found = values(topic=TOPIC, producer=name, reliable=1)
        found.__dict__.update(more)
        return self.calls.attach(method("Create"), found, caller or self.me, now_ns)

    def producer(
        self, name: str, called: int, caller: Caller | None = None, now_ns: int = 0, **more: Any
    ) -> None:
        attaching = self.ask_producer(name, caller, now_ns, **more)
        assert attaching.decision is None
        self.attachments.attached(attaching, called, now_ns)

    def ask_consumer(
        self, name: str, caller: Caller | None = None, now_ns: int = 0, **more: Any
    ) -> Attaching:
        found = values(topic=TOPIC, subscription="s", consumer=name)
        found.__dict__.update(more)
        return self.calls.attach(method("Subscribe"), found, caller or self.me, now_ns)

    def consumer(
        self, name: str, called: int, caller: Caller | None = None, now_ns: int = 0, **more: Any
    ) -> None:
        attaching = self.ask_consumer(name, caller, now_ns, **more)
        assert attaching.decision is None
        self.attachments.attached(attaching, called, now_ns)

    def publish(self, producer: int | str, caller: Caller | None = None, now_ns: int = 0, **more: Any) -> Any:
        found = values(producer=producer, payload=10)
        found.__dict__.update(more)
        return self.calls.publish(method("Send"), found, caller or self.me, now_ns)[1]
