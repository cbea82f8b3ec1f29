"""A quota factor of 0: messages wait, new producers are told at once, and afterwards all goes on."""

import pytest
from tests.pulsar.session.messages import producer, producer_success, send
from tests.pulsar.session.producers.test_producing_rates import opened
from tests.pulsar.session.test_slices import batch
from tests.pulsar.session.wire import Bench, Wire

from sluicegate.engine.factors import Factor
from sluicegate.testing import ManualContext
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.config import PulsarConfig

pytestmark = pytest.mark.seed("S4-002", "X-03")


@pytest.fixture
def disk() -> Factor:
    return Factor("disk", "Free some space.")


@pytest.fixture
def wire(disk: Factor) -> Wire:
    """A connection with a producer, under a gateway with the factor."""
    bench = Bench()
    bench.context = ManualContext(config=PulsarConfig)
    bench.context.add([disk])
    wire = Wire(bench)
    wire.client_sends(producer(0, request_id=0))
    wire.broker_sends(producer_success(0, "p-0"))
    wire.sent_up()
    wire.sent_down()
    return wire


def test_messages_wait_and_resume_within_a_second(wire: Wire, disk: Factor) -> None:
    disk.set(0.0, "volume 1 is full")
    frames = [send(number) for number in range(3)]
    wire.client_sends(*frames)
    wire.wait(3)
    assert wire.sent_up() == []

    disk.set(1.0, "")
    wire.wait(1)

    assert wire.sent_up() == frames


def test_a_new_producer_gets_the_quota_error(wire: Wire, disk: Factor) -> None:
    disk.set(0.0, "volume 1 is full")
    wire.client_sends(producer(1, request_id=7))

    assert wire.sent_up() == []
    (answer,) = wire.answered()
    assert int(answer.error.error) == ServerError.PRODUCER_BLOCKED_QUOTA_EXCEEDED_EXCEPTION
    assert "Publishing is paused by disk for topic" in answer.error.message

    disk.set(0.5, "")
    wire.client_sends(producer(1, request_id=8))
    assert wire.sent_up() == [producer(1, request_id=8)]


def test_a_batch_is_measured_again_if_the_limit_is_lowered_while_it_waits(disk: Factor) -> None:
    bench = Bench(max_message_size=5_000)
    bench.context = ManualContext(config=PulsarConfig)
    bench.context.add([disk])
    wire = opened(bench, "slow")
    disk.set(0.0, "volume 1 is full")
    wire.client_sends(send(0, batch(100, bytes(20), largest=4_000), num_messages_in_batch=100))
    wire.wait(3)
    bench.set(max_message_size=500)
    disk.set(1.0, "")
    wire.wait(1)
    assert wire.sent_up() == []
    (answer,) = wire.answered()
    assert answer.HasField("send_error")
