"""Consumers with ids that this gateway has not given: their first message tells whose they are."""

from dataclasses import replace

import pytest
from tests.bench import SECOND, Bench
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import ACK, MAX_HOLD_NS, METHODS, RECEIVE, TOPIC, Talk, front

from sluicegate.broker import PASS

TELLING = replace(METHODS.methods[RECEIVE], message_topic=(4,), message_subscription=(5,))


def talk(**policies: int) -> Talk:
    bench = Bench()
    shared = front(bench)
    bench.set_topic(TOPIC, **policies)
    shared.rules.methods = replace(METHODS, methods={**METHODS.methods, RECEIVE: TELLING})
    return Talk(shared)


def delivered(position: int, size: int = 10) -> bytes:
    return service.message((1, position), (2, b"m" * size), (4, TOPIC), (5, "s"))


def count(of: Talk, stream: int) -> int:
    return len(list(service.messages(bytes(of.client(stream).data))))


@pytest.mark.parametrize("size", [10, 300_000])  # one frame, and many
def test_an_unknown_consumer_attaches_with_its_first_message(size: int) -> None:
    of = talk(max_consumers_per_topic=1)
    stream = of.receive(7)
    of.answer(stream, end=False)
    assert of.consumers() == 0
    message = delivered(0, size)
    while message:
        of.answer(stream, message[:16_000], end=False)
        message = message[16_000:]
        of.take(of.wire.client)
    for _ in range(20):  # as far as the client's window lets it
        of.take(of.wire.client)
    assert (count(of, stream), of.consumers()) == (1, 1)
    assert of.refused(of.subscribe("another", 8))[0] == "8"
    of.wire.server.h2.send_data(stream, delivered(1))
    of.wire.collect()
    data = of.wire.from_server.take(1_000)
    assert of.session.receive_upstream(data, of.wire.now) is PASS
    of.hang_up()
    assert of.consumers() == 0


def test_it_counts_for_as_long_as_its_stream() -> None:
    of = talk(max_consumers_per_topic=1)
    for _ in range(2):
        stream = of.receive(7)
        of.answer(stream, delivered(0), end=False)
        assert of.consumers() == 1
        of.answer(stream)
        assert of.consumers() == 0
    of.subscribe("its name", 7)
    assert of.consumers() == 1
    of.hang_up()


def test_a_consumer_that_subscribes_again_counts_once() -> None:
    of = talk(max_consumers_per_topic=2)
    stream = of.receive(7)
    of.answer(stream, delivered(0), end=False)
    of.subscribe("c", 7)
    assert of.consumers() == 1
    of.answer(stream)
    assert of.consumers() == 1
    of.hang_up()


def test_a_consumer_becomes_known_while_its_stream_is_open() -> None:
    of = talk(max_consumers_per_topic=1)
    stream = of.receive(7)
    of.subscribe("c", 7)
    of.answer(stream, delivered(0), end=False)
    assert (count(of, stream), of.consumers()) == (1, 1)
    of.answer(stream)
    assert of.consumers() == 1
    of.hang_up()


def test_rates_and_unacknowledged_messages_hold_from_the_first_one() -> None:
    of = talk(max_dispatch_rate=10, max_unacked_messages_per_consumer=2)
    stream = of.receive(7)
    of.answer(stream, *[delivered(at) for at in range(5)], end=False)
    assert count(of, stream) == 2
    of.call(ACK, service.message((1, TOPIC), (2, "s"), (3, 0)))
    assert count(of, stream) == 3
    state = of.shared.services.gates.get(TOPIC, False, of.wire.now).state
    assert state.dispatched_messages == 3
    of.hang_up()


@pytest.mark.parametrize("place_is_free", [True, False])
def test_without_a_place_it_waits_and_is_then_not_found(place_is_free: bool) -> None:
    of = talk(max_consumers_per_topic=1)
    of.subscribe("c", 8)
    other = of.receive(8)
    stream = of.receive(7)
    of.answer(stream, delivered(0), delivered(1), end=False)
    assert (count(of, stream), of.client(stream).is_over) == (0, False)
    if place_is_free:
        of.wire.client.h2.reset_stream(other)
        of.wire.settle()
        of.wire.pass_time(SECOND)
        of.wire.settle()
        assert (count(of, stream), of.consumers()) == (2, 1)
    else:
        of.wire.pass_time(MAX_HOLD_NS)
        of.wire.settle()
        assert of.client(stream).status == "5"
        assert of.wire.server.seen[stream].is_over, "the broker goes on sending"
        assert of.consumers() == 1
    of.hang_up()


def test_a_message_that_names_no_topic_ends_the_stream() -> None:
    of = talk()
    stream = of.receive(7)
    of.answer(stream, service.message((1, 0), (2, b"m")), end=False)
    assert (count(of, stream), of.client(stream).status) == (0, "5")
    of.hang_up()


def test_the_brokers_refusal_passes() -> None:
    of = talk()
    stream = of.receive(7)
    of.answer(stream, status=5)
    assert of.client(stream).status == "5"
    assert of.shared.calls.unknown_ids == 1
    of.hang_up()


def test_a_map_that_names_no_topic_is_as_before() -> None:
    of = Talk(front())
    assert of.refused(of.receive(7))[0] == "5"
