"""Streams of messages: paced without loss, dropped only if unreliable, held until they are due."""

import gzip
import tracemalloc
from typing import Any

import pytest
from tests.bench import SECOND, START, Bench
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.oracle.reshape import DATA, frame
from tests.grpc.proxy.splice.talk import ACK, METHODS, RECEIVE, SUBSCRIBE, TOPIC, Talk, delivered, front

from sluicegate.broker import PASS
from sluicegate_grpc.proxy.splice import Limits
from sluicegate_grpc.proxy.splice.delivering import MESSAGE_BYTES, Delivering


def opened(talk: Talk) -> int:
    """A consumer with an open stream."""
    talk.subscribe()
    stream = talk.receive()
    talk.answer(stream, end=False)
    return stream


def positions(talk: Talk, stream: int) -> list[int]:
    """Which messages the client has."""
    return [each[6] for each in service.messages(bytes(talk.client(stream).data))]


def test_messages_within_the_rates_pass_as_the_same_bytes() -> None:
    talk = Talk(front(max_dispatch_rate=100))
    stream = opened(talk)
    for at in range(3):
        talk.wire.server.h2.send_data(stream, delivered(at))
    talk.wire.collect()
    data = talk.wire.from_server.take(10_000)
    assert talk.session.receive_upstream(data, talk.wire.now) is PASS
    gate = talk.shared.services.gates.get(TOPIC, False, talk.wire.now)
    assert (gate.state.dispatched_messages, gate.state.dispatched_bytes) == (3, 30)


@pytest.mark.parametrize("delay_ms", [0, 1])  # read in different ways
def test_sizes_can_be_those_of_whole_messages(delay_ms: int) -> None:
    talk = Talk(front(max_dispatch_rate_bytes=1_000_000, fixed_delivery_delay=delay_ms))
    talk.shared.rules.methods = METHODS.sized_by("message")
    stream = opened(talk)
    messages = [delivered(at, 10_000, published=1) for at in range(3)]
    for message in messages:
        talk.answer(stream, message[:100], end=False)  # a message in two frames
        talk.answer(stream, message[100:], end=False)
    talk.wire.pass_time(SECOND)
    talk.wire.settle()
    state = talk.shared.services.gates.get(TOPIC, False, talk.wire.now).state
    assert (state.dispatched_messages, state.dispatched_bytes) == (3, sum(map(len, messages)) - 3 * 5)
    talk.hang_up()


def test_a_waiting_message_is_not_decided_again_for_each_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = Talk(front(max_dispatch_rate=1))
    stream = opened(talk)
    asked = []
    ask = Delivering._ask

    def counting(watcher: Delivering, *arguments: Any) -> int:
        asked.append(arguments)
        return ask(watcher, *arguments)

    monkeypatch.setattr(Delivering, "_ask", counting)
    talk.answer(stream, *[delivered(at) for at in range(200)], end=False)
    assert positions(talk, stream) == [0]
    assert len(asked) <= 3
    talk.wire.pass_time(3 * SECOND)
    talk.wire.settle()
    assert len(positions(talk, stream)) > 2
    talk.hang_up()


@pytest.mark.seed("S1-071", "S1-076", "S1-080", "S1-081")
@pytest.mark.parametrize("policy", ["max_dispatch_rate", "max_subscription_dispatch_rate"])
def test_reliable_messages_are_paced_in_order_without_loss(policy: str) -> None:
    bench = Bench()
    talk = Talk(front(bench))
    bench.set_topic(TOPIC, **{policy: 10})
    stream = opened(talk)
    talk.answer(stream, b"".join(delivered(at) for at in range(30)))
    assert positions(talk, stream) == list(range(10))
    assert not talk.client(stream).is_over
    assert talk.session.held_bytes > 0
    talk.wire.pass_time(SECOND)
    talk.wire.settle()
    assert positions(talk, stream) in (list(range(19)), list(range(20)))
    talk.wire.pass_time(SECOND + SECOND // 10)
    talk.wire.settle()
    assert positions(talk, stream) == list(range(30))
    assert talk.client(stream).status == "0"
    assert talk.session.held_bytes == 0
    talk.hang_up()


@pytest.mark.seed("S1-070")
def test_unreliable_messages_are_dropped_and_counted() -> None:
    talk = Talk(front(max_dispatch_rate=10, on_limit__max_dispatch_rate="drop"))
    attach = talk.call("/t.Broker/Attach", service.message((1, TOPIC), (2, "p")))
    talk.answer(attach, service.message((1, 7)))
    stream = opened(talk)
    talk.answer(stream, b"".join(delivered(at) for at in range(30)), end=False)
    assert positions(talk, stream) == list(range(10))
    assert talk.shared.counts["dispatch_dropped"] == 20
    assert talk.session.held_bytes == 0
    # The broker got leave for what was dropped, or its stream would stop.
    window = talk.wire.server.h2.local_flow_control_window(stream)
    answers = 2 * len(service.message((1, 7)))
    assert window == 65_535 - 10 * len(delivered(0)) - answers
    talk.hang_up()


def test_a_slow_stream_does_not_stop_the_others_on_its_connection() -> None:
    talk = Talk(front(max_dispatch_rate=1))
    stream = opened(talk)
    other = talk.call("/t.Other/Anything", service.message((1, 5)))
    for _ in range(4):
        talk.answer(stream, delivered(1, 16_000), end=False)
    talk.answer(other, service.message((1, b"y" * 16_000)))
    assert talk.client(other).is_over
    assert len(talk.client(stream).data) == len(delivered(1, 16_000))
    talk.hang_up()


def test_a_message_larger_than_the_windows_is_paced_too() -> None:
    talk = Talk(front(max_dispatch_rate=1))
    stream = opened(talk)
    sent = delivered(0, 60_000) + delivered(1, 60_000)
    left = sent
    for _ in range(200):
        size = min(len(left), max(0, talk.wire.server.window(stream)), 16_384)
        if size:
            talk.wire.server.h2.send_data(stream, left[:size])
            left = left[size:]
        talk.wire.settle()
        talk.take(talk.wire.client)
        talk.wire.pass_time(SECOND // 50)
        talk.wire.settle()
    assert bytes(talk.client(stream).data) == sent
    assert talk.session.held_bytes == 0
    talk.hang_up()


def test_small_messages_are_charged_with_the_memory_that_they_take() -> None:
    talk = Talk(front(max_dispatch_rate=1))
    stream = opened(talk)
    part = frame(DATA, 0, stream, delivered(0) * 500)
    tracemalloc.start()
    try:
        for _ in range(4):
            talk.wire.from_server.put(part)
            talk.wire.settle()
        real = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    held = talk.session.held_bytes
    assert talk.shared.services.budget.used == held >= real * 0.8
    talk.wire.pass_time(2 * SECOND)
    talk.wire.settle()
    assert talk.shared.services.budget.used == talk.session.held_bytes < held
    talk.hang_up()


def test_a_cancelled_stream_leaves_nothing_behind() -> None:
    talk = Talk(front(max_dispatch_rate=1))
    stream = opened(talk)
    talk.answer(stream, *(delivered(at) for at in range(5)), end=False)
    assert talk.session.held_bytes > 0
    talk.wire.client.h2.reset_stream(stream, error_code=8)
    talk.wire.settle()
    assert talk.session.held_bytes == 0
    assert talk.consumers() == 0
    talk.hang_up()


def test_messages_are_held_until_they_are_due_in_order_and_never_early() -> None:
    bench = Bench()
    talk = Talk(front(bench, fixed_delivery_delay=3_000))
    stream = opened(talk)
    now_ms = bench.wall_ms(START)
    sent = [delivered(0, published=now_ms - 2_000), delivered(1, published=now_ms), delivered(2)]
    talk.answer(stream, b"".join(sent), end=False)
    seen: dict[int, int] = {}
    for step in range(400):
        for position in positions(talk, stream):
            seen.setdefault(position, step * 10)
        talk.wire.pass_time(SECOND // 100)
        talk.wire.settle()
    assert list(seen) == [0, 1, 2]
    assert 1_000 <= seen[0] <= 1_050
    assert 3_000 <= seen[1] <= seen[2] <= 3_050
    talk.hang_up()


def test_a_delay_reads_beyond_the_stream_window_up_to_a_bound() -> None:
    talk = Talk(front(fixed_delivery_delay=5_000, limits=Limits(stream_bytes=200_000)))
    stream = opened(talk)
    sent = 0
    for at in range(1_000):
        message = delivered(at % 100, 1_000)
        if talk.wire.server.window(stream) < len(message):
            break
        talk.wire.server.h2.send_data(stream, message)
        talk.wire.settle()
        sent += len(message)
    assert 250_000 <= sent <= 200_000 + 65_535
    assert talk.session.held_bytes == sent + MESSAGE_BYTES * sent // len(delivered(0, 1_000))
    talk.wire.pass_time(6 * SECOND)
    for _ in range(20):
        talk.take(talk.wire.client)
    assert len(talk.client(stream).data) == sent
    assert talk.session.held_bytes == 0
    talk.hang_up()


@pytest.mark.seed("S1-090")
def test_at_the_limit_of_unacknowledged_messages_the_stream_waits_for_one() -> None:
    talk = Talk(front(max_unacked_messages_per_consumer=2))
    stream = opened(talk)
    talk.answer(stream, b"".join(delivered(at) for at in range(4)), end=False)
    assert positions(talk, stream) == [0, 1]
    acked = talk.call(ACK, service.message((1, TOPIC), (2, "s"), (3, 0)))
    talk.answer(acked)
    assert positions(talk, stream) == [0, 1, 2]
    talk.wire.pass_time(5 * SECOND)
    talk.wire.settle()
    assert positions(talk, stream) == [0, 1, 2]
    talk.hang_up()


def test_an_acknowledgement_by_another_connection_counts_as_well() -> None:
    shared = front(max_unacked_messages_per_consumer=1)
    talk, other = Talk(shared), Talk(shared, "10.0.0.2:5000")
    stream = opened(talk)
    talk.answer(stream, b"".join(delivered(at) for at in range(2)), end=False)
    assert positions(talk, stream) == [0]
    other.call(ACK, service.message((1, TOPIC), (2, "s"), (3, 0)))
    talk.wire.pass_time(SECOND // 10)
    talk.wire.settle()
    assert positions(talk, stream) == [0, 1]


def test_the_wait_for_acknowledgements_is_short_again_once_one_has_come() -> None:
    """Those of other connections are looked for: ever more rarely, as long as there are none."""
    shared = front(max_unacked_messages_per_consumer=1)
    talk, other = Talk(shared), Talk(shared, "10.0.0.2:5000")
    stream = opened(talk)
    talk.answer(stream, b"".join(delivered(at) for at in range(3)), end=False)
    for at, longest_ns in ((0, SECOND // 3), (1, SECOND // 30)):
        if at == 0:
            talk.wire.pass_time(5 * SECOND)
        other.call(ACK, service.message((1, TOPIC), (2, "s"), (3, at)))
        until = talk.wire.now + longest_ns
        while len(positions(talk, stream)) == at + 1 and talk.wire.now < until:
            talk.wire.pass_time(SECOND // 1_000)
            talk.wire.settle()
        assert positions(talk, stream) == list(range(at + 2))


def test_acknowledgements_elsewhere_are_looked_for_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk(front(max_unacked_messages_per_consumer=1))
    stream = opened(talk)
    talk.answer(stream, b"".join(delivered(at) for at in range(20)), end=False)
    for at in range(10):
        talk.answer(talk.call(ACK, service.message((1, TOPIC), (2, "s"), (3, at))))
    assert positions(talk, stream) == list(range(11))
    looks = []
    ask = Delivering._ask

    def counted(self: Delivering, *arguments: Any) -> int:
        looks.append(talk.wire.now)
        return ask(self, *arguments)

    monkeypatch.setattr(Delivering, "_ask", counted)
    talk.wire.pass_time(5 * SECOND)
    assert 15 < len(looks) < 25
    talk.hang_up()


def test_the_rest_of_a_message_passes_that_waited_in_part() -> None:
    talk = Talk(front(max_dispatch_rate=1))
    stream = opened(talk)
    message = delivered(1, 1_000)
    talk.answer(stream, delivered(0) + message[:100], end=False)
    assert len(talk.client(stream).data) == len(delivered(0))
    talk.wire.pass_time(SECOND + SECOND // 10)
    talk.wire.settle()
    assert len(talk.client(stream).data) == len(delivered(0)) + 100
    talk.answer(stream, message[100:], end=False)
    assert positions(talk, stream) == [0, 1]
    talk.hang_up()


def test_the_rest_of_a_message_is_dropped_that_was_known_in_part() -> None:
    talk = Talk(front(max_dispatch_rate=1, on_limit__max_dispatch_rate="drop"))
    attach = talk.call("/t.Broker/Attach", service.message((1, TOPIC), (2, "p")))
    talk.answer(attach, service.message((1, 7)))
    stream = opened(talk)
    message = delivered(1, 1_000)
    talk.answer(stream, delivered(0) + message[:3], message[3:100], end=False)
    assert talk.shared.counts["dispatch_dropped"] == 1
    talk.wire.pass_time(2 * SECOND)
    talk.answer(stream, message[100:] + delivered(2), end=False)
    assert positions(talk, stream) == [0, 2]
    talk.hang_up()


def test_new_policies_apply_to_open_streams() -> None:
    bench = Bench()
    talk = Talk(front(bench))
    stream = opened(talk)
    talk.answer(stream, *(delivered(at) for at in range(5)), end=False)
    assert positions(talk, stream) == list(range(5))
    bench.set_topic(TOPIC, max_dispatch_rate=1)
    talk.answer(stream, *(delivered(at) for at in range(5, 8)), end=False)
    assert positions(talk, stream) == list(range(6))
    bench.set_topic(TOPIC, max_dispatch_rate=0)
    talk.wire.pass_time(SECOND)
    talk.wire.settle()
    assert positions(talk, stream) == list(range(8))
    talk.hang_up()


def test_compressed_and_unreadable_messages_are_metered_by_their_visible_size() -> None:
    talk = Talk(front(max_dispatch_rate=2))
    talk.subscribe()
    stream = talk.receive()
    talk.wire.server.h2.send_headers(stream, [*service.ANSWER, ("grpc-encoding", "gzip")])
    raw = service.field(1, 1) + service.field(2, b"m" * 300)
    for sent in (
        service.framed(gzip.compress(raw), 1),
        service.framed(b"\xff" * 40),
        service.framed(b"?", 1),
    ):
        talk.wire.server.h2.send_data(stream, sent)
    talk.wire.settle()
    gate = talk.shared.services.gates.get(TOPIC, False, talk.wire.now)
    assert (gate.state.dispatched_messages, gate.state.dispatched_bytes) == (2, 300 + 40)
    talk.wire.pass_time(SECOND)
    talk.wire.settle()
    assert gate.state.dispatched_messages == 3
    talk.hang_up()


def test_a_returning_consumer_counts_once() -> None:
    talk = Talk(front(max_consumers_per_topic=1))
    stream = opened(talk)
    talk.answer(stream, status=14)  # the broker ends the stream: the consumer comes back
    assert talk.consumers() == 1
    again = talk.receive()
    talk.answer(again, delivered(1), end=False)
    assert positions(talk, again) == [1]
    assert talk.refused(talk.call(SUBSCRIBE, service.message((1, TOPIC), (2, "d"), (3, "s"))))[0] == "8"
    talk.hang_up()


@pytest.mark.parametrize("status", [1, 4])
def test_a_stream_past_its_deadline_frees_its_place(status: int) -> None:
    talk = Talk()
    talk.subscribe()
    stream = talk.receive()
    assert talk.consumers() == 1
    talk.answer(stream, status=status)  # the client's RST_STREAM comes later, of a stream that is no more
    assert talk.consumers() == 0


def test_waiting_messages_survive_a_reset_without_error() -> None:
    bench = Bench()
    talk = Talk(front(bench))
    bench.set_topic(TOPIC, max_dispatch_rate=10)
    talk.subscribe()
    stream = talk.call(RECEIVE, service.message((1, 9)), end=False)
    broker = talk.wire.server.h2
    broker.send_headers(stream, service.ANSWER)
    broker.send_data(stream, b"".join(delivered(at) for at in range(15)))
    broker.send_headers(stream, [("grpc-status", "0")], end_stream=True)
    broker.reset_stream(stream, 0)
    talk.wire.settle()
    assert positions(talk, stream) == list(range(10))
    talk.wire.pass_time(SECOND)
    talk.wire.settle()
    assert positions(talk, stream) == list(range(15))
    assert talk.client(stream).status == "0"
    talk.hang_up()
