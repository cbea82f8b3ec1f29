"""A reliable subscription loses no messages."""

from collections.abc import Callable

from danube.proto import DanubeApi_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.choosing import chooser
from sluicegate_danube.reference.consumers import Consumer
from sluicegate_danube.reference.log import Log, Storage
from sluicegate_danube.reference.subscription import Reliable

MAX_UNACKED = 4
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "attach", "leave", "ack", "nack", "due"]),
        st.integers(min_value=0, max_value=20),
    ),
    max_size=80,
)


class Lab:
    """A subscription with three consumers and no clock."""

    def __init__(self, kind: int) -> None:
        self.log: Log = Storage(1 << 20).make_log(lambda: 0)
        self.later: list[tuple[Callable[[int], None], int]] = []
        choose = chooser(kind)
        assert choose is not None
        settings = Settings(max_unacked=MAX_UNACKED)
        self.subscription = Reliable(
            kind,
            choose,
            settings,
            self.log,
            lambda _, function, offset: self.later.append((function, offset)),
        )
        self.consumers = [Consumer(number, f"consumer {number}", "s", ()) for number in range(3)]
        self.acked: list[int] = []

    def step(self, what: str, number: int) -> None:
        consumer = self.consumers[number % 3]
        match what:
            case "publish":
                message = pb.StreamMessage(payload=b"x", producer_name=f"producer {number}")
                assert self.log.append(message)
                self.subscription.publish(message)
            case "attach":
                self.subscription.attach(consumer)
            case "leave":
                self.subscription.leave(consumer)
            case "due":
                while self.later:
                    function, offset = self.later.pop(0)
                    function(offset)
            case _:
                self._answer(what, consumer)

    def _answer(self, what: str, consumer: Consumer) -> None:
        if consumer._waiting:
            offset = consumer._waiting.popleft().msg_id.topic_offset
            if what == "nack":
                self.subscription.refuse(offset, 1.0)
            else:
                self.acked.append(offset)
                self.subscription.acknowledge(offset)


@given(st.integers(min_value=0, max_value=3), STEPS)
def test_each_message_is_redelivered_until_acknowledged(kind: int, steps: list[tuple[str, int]]) -> None:
    lab = Lab(kind)
    for what, number in steps:
        lab.step(what, number)
        assert lab.subscription.unacked <= MAX_UNACKED
        assert lab.subscription.backlog == lab.log.end - len(lab.acked)
    for number in (0, 1, 2):
        lab.step("leave", number)
    lab.step("attach", 0)
    for _ in range(2 * lab.log.end):
        lab.step("due", 0)
        lab.step("ack", 0)
    assert sorted(lab.acked) == list(range(lab.log.end))
    assert lab.subscription.needed_from() == lab.log.end
