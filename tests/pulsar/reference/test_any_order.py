"""In any order of events, nothing is lost, early or delivered twice."""

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pulsar.reference.lab import NOW, Log, consumer, subscription

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.consumers import Command, Consumer, Deliver
from sluicegate_pulsar.reference.hash_ranges import SLOTS

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "delay", "flow", "acknowledge", "redeliver", "attach", "detach", "wait"]),
        st.integers(0, 5),
    ),
    min_size=25,
    max_size=60,
)


class Play:
    """A subscription, and what its consumers hold."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.many = kind in (pb.Subscribe.SHARED, pb.Subscribe.KEY_SHARED)
        self.now = NOW
        self.log = Log()
        self.sub = subscription(self.log)
        self.held: dict[int, Consumer] = {}
        self.done: set[int] = set()
        self.came = 0

    def take(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if not isinstance(command, Deliver):
                continue
            number = command.entry.number
            assert number not in self.done, "delivered after it was acknowledged"
            assert number not in self.held, "delivered while another delivery is open"
            assert not self.many or command.entry.deliver_at_ms <= self.now, "delivered too early"
            assert command.consumer in self.sub.consumers
            same_key = [at for at in self.held if self.log[at].slot == command.entry.slot]
            if self.kind == pb.Subscribe.KEY_SHARED:
                assert {self.held[at] for at in same_key} <= {command.consumer}, "a key of two consumers"
            self.held[number] = command.consumer

    def forget(self, who: Consumer) -> None:
        self.held = {number: holder for number, holder in self.held.items() if holder is not who}

    def step(self, name: str, value: int) -> None:
        who = self.sub.consumers[value % len(self.sub.consumers)] if self.sub.consumers else None
        if name in ("publish", "delay"):
            self.log.add(key="ab"[value % 2], deliver_at=self.now + 100 * value if name == "delay" else 0)
            self.take(self.sub.pump(self.now))
        elif name == "wait":
            self.now += 50 * value
            self.take(self.sub.pump(self.now))
        elif name == "attach":
            if self.kind != pb.Subscribe.EXCLUSIVE or who is None:
                self.came += 1
                self.take(self.sub.attach(consumer(self.came), self.kind, self.now))
        elif name == "acknowledge" and self.log:
            number = len(self.log) - 1 - value % len(self.log)  # held by a consumer, waiting, or done already
            self.held.pop(number, None)
            self.done.add(number)
            self.take(self.sub.acknowledge([number], self.now))
        elif who is not None:
            self.step_of(who, name, value)

    def step_of(self, who: Consumer, name: str, value: int) -> None:
        if name == "flow":
            self.take(self.sub.flow(who, value, self.now))
        elif name == "redeliver":
            mine = sorted(number for number, holder in self.held.items() if holder is who)
            wanted = mine[: value % 3]
            for number in wanted if wanted and self.many else mine:
                del self.held[number]
            self.take(self.sub.redeliver(who, wanted, self.now))
        elif name == "detach":
            self.forget(who)
            self.take(self.sub.detach(who, self.now))


@pytest.mark.parametrize("kind", range(4), ids=["exclusive", "shared", "failover", "key_shared"])
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a loaded machine is no mistake
@given(steps=STEPS)
def test_nothing_is_lost_early_or_twice(kind: int, steps: list[tuple[str, int]]) -> None:
    play = Play(kind)
    play.step("attach", 0)
    play.step("flow", 5)
    for name, value in steps:
        play.step(name, value)
        for who in play.sub.consumers:
            mine = sorted(number for number, holder in play.held.items() if holder is who)
            assert play.sub.unacknowledged(who) == mine
    for who in list(play.sub.consumers):
        play.step_of(who, "detach", 0)
    play.now += 10_000
    play.step("attach", 0)
    play.step("flow", 9)
    play.sub.consumers[0].permits = SLOTS
    play.take(play.sub.pump(play.now))
    assert play.done | set(play.held) == set(range(len(play.log)))
    assert play.sub.backlog == len(play.held)
