"""Requests: forwarded, held or refused, and what each releases."""

import gzip

import pytest
from tests.bench import SECOND
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import (
    ATTACH,
    LATE_PUBLISH,
    MAX_HOLD_NS,
    PUBLISH,
    TOPIC,
    Talk,
    front,
)

from sluicegate.broker import PASS
from sluicegate_grpc.proxy.splice import Limits
from sluicegate_grpc.semantics.fields import Data, Missing, Plan, Values


def test_a_publish_within_the_limits_is_forwarded_unchanged() -> None:
    talk = Talk(front(max_publish_rate=100, max_message_size=100))
    talk.attach()
    talk.publish(settled=False)
    talk.wire.collect()
    data = talk.wire.to_gate.take(100_000)
    assert talk.session.receive_client(data, talk.wire.now) is PASS
    assert talk.session.held_bytes == 0
    talk.hang_up()


@pytest.mark.seed("S1-050", "S1-051", "S1-052")
def test_an_oversized_message_is_refused_by_its_prefix_and_never_forwarded() -> None:
    talk = Talk(front(max_message_size=100))
    talk.attach()
    assert not talk.client(talk.publish(100)).is_over
    whole = service.publish(TOPIC, 7, b"x" * 4_000)
    stream = talk.call(PUBLISH, whole[:40], end=False)
    code, text = talk.refused(stream)
    assert code == "3"
    assert "Current: 4000 bytes, Limit: 100 bytes" in text
    talk.hang_up()


@pytest.mark.seed("S1-062")
def test_a_publish_over_the_rate_is_refused_or_delayed_by_policy() -> None:
    talk = Talk(front(max_publish_rate=1, on_limit__max_publish_rate="reject"))
    talk.attach()
    talk.publish()
    code, text = talk.refused(talk.publish())
    assert code == "8"
    assert text.startswith("Publish rate limit exceeded")


def test_a_held_publish_lets_others_pass_and_is_forwarded_in_time() -> None:
    talk = Talk(front(max_publish_rate=2, on_limit__max_publish_rate="delay"))
    talk.attach()
    for _ in range(2):
        talk.publish()
    held, other = talk.publish(), talk.call("/t.Other/Anything", service.message((1, 5)))
    assert talk.wire.server.seen[other].is_ended
    assert not talk.wire.server.seen[held].data
    assert talk.session.held_bytes > 0
    talk.wire.pass_time(SECOND)
    talk.wire.settle()
    assert talk.wire.server.seen[held].is_ended
    assert bytes(talk.wire.server.seen[held].data) == service.publish(TOPIC, 7, b"x" * 10)
    assert talk.session.held_bytes == 0
    talk.hang_up()


def test_a_publish_waits_at_most_max_hold() -> None:
    talk = Talk(front(max_publish_rate=0.1, max_publish_rate_burst=1, on_limit__max_publish_rate="delay"))
    talk.attach()
    talk.publish()
    held = talk.publish()
    talk.wire.pass_time(MAX_HOLD_NS + SECOND)
    talk.wire.settle()
    assert talk.refused(held)[0] == "8"
    assert talk.shared.counts["hold_timed_out"] == 1
    talk.hang_up()


def test_a_cancelled_publish_leaves_its_turn_to_the_next_at_once() -> None:
    talk = Talk(front(max_publish_rate=1, on_limit__max_publish_rate="delay"))
    talk.attach()
    talk.publish()
    held, behind = talk.publish(), talk.publish()
    talk.wire.client.h2.reset_stream(held, error_code=8)
    talk.wire.settle()
    talk.wire.pass_time(SECOND + SECOND // 10)
    talk.wire.settle()
    assert talk.wire.server.seen[behind].is_ended
    talk.hang_up()


def test_a_cancelled_publish_is_never_forwarded_and_charges_nothing() -> None:
    talk = Talk(front(max_publish_rate=1, on_limit__max_publish_rate="delay"))
    talk.attach()
    talk.publish()
    held = talk.publish()
    talk.wire.client.h2.reset_stream(held, error_code=8)
    talk.wire.settle()
    talk.wire.pass_time(3 * SECOND)
    talk.wire.settle()
    assert talk.wire.server.seen.get(held) is None
    assert talk.wire.server.seen[talk.publish()].is_ended  # nobody waits before it any more
    talk.hang_up()


@pytest.mark.seed("S1-030", "S1-031", "S1-041")
def test_producers_count_only_once_the_broker_accepts_them() -> None:
    talk = Talk(front(max_producers_per_topic=2))
    talk.attach("a", 1)
    failing = talk.call(ATTACH, service.message((1, TOPIC), (2, "b"), (3, 1)))
    talk.answer(failing, status=13)
    assert talk.producers() == 1
    talk.attach("c", 2)
    assert talk.refused(talk.attach("d", 3))[0] == "8"
    talk.attach("a", 1)  # the same producer again is no new one
    assert talk.producers() == 2
    talk.hang_up()
    assert talk.producers() == 0


@pytest.mark.parametrize("how", ["client", "broker"])
def test_an_attaching_call_that_is_cut_off_frees_its_place(how: str) -> None:
    talk = Talk(front(max_producers_per_topic=1))
    stream = talk.call(ATTACH, service.message((1, TOPIC), (2, "a"), (3, 1)))
    assert talk.producers() == 1
    end = talk.wire.client if how == "client" else talk.wire.server
    end.h2.reset_stream(stream, error_code=8)
    talk.wire.settle()
    assert talk.producers() == 0


@pytest.mark.seed("S1-037", "S1-038")
def test_consumers_are_refused_over_the_limit() -> None:
    talk = Talk(front(max_consumers_per_subscription=1))
    talk.subscribe("a", 1)
    assert talk.refused(talk.subscribe("b", 2))[0] == "8"
    assert talk.consumers() == 1


def test_a_stream_of_an_unknown_consumer_has_to_subscribe_again() -> None:
    talk = Talk()
    assert talk.refused(talk.receive(77))[0] == "5"


def test_a_large_message_is_decided_by_its_beginning_and_streamed() -> None:
    talk = Talk(front(max_publish_rate=100))
    talk.attach()
    whole = service.publish(TOPIC, 7, b"x" * 1_000_000)
    stream = talk.call(PUBLISH, whole[:1_000], end=False)
    assert len(talk.wire.server.seen[stream].data) == 1_000
    talk.send(stream, whole[1_000:], end=True)
    assert bytes(talk.wire.server.seen[stream].data) == whole
    assert talk.wire.most_held < 200_000
    talk.hang_up()


def test_a_large_message_that_contradicts_itself_at_its_end_is_never_completed() -> None:
    talk = Talk(front(max_publish_rate=100))
    talk.attach()
    raw = (
        service.field(1, TOPIC)
        + service.field(2, 7)
        + service.field(3, b"x" * 50_000)
        + service.field(1, "b")
    )
    whole = service.framed(raw)
    stream = talk.call(PUBLISH, whole[:1_000], end=False)
    talk.send(stream, whole[1_000:-3])
    talk.wire.client.h2.send_data(stream, whole[-3:], end_stream=True)
    talk.wire.settle()
    assert talk.client(stream).status == "3"
    seen = talk.wire.server.seen[stream]
    assert seen.reset is not None
    assert len(seen.data) < len(whole)
    talk.hang_up()


def test_a_message_whose_topic_comes_last_is_buffered() -> None:
    talk = Talk(front(max_publish_rate=1, on_limit__max_publish_rate="reject"))
    whole = service.message((1, b"x" * 500_000), (2, TOPIC), (3, 7))
    stream = talk.call(LATE_PUBLISH, b"", end=False)
    talk.send(stream, whole, end=True)
    for _ in range(40):
        talk.take(talk.wire.server)
    assert bytes(talk.wire.server.seen[stream].data) == whole
    assert talk.wire.server.seen[stream].is_ended
    talk.hang_up()


def test_a_message_in_small_pieces_is_not_read_anew_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    reads = Plan.read

    def counted(self: Plan, data: Data, start: int, stop: int, *more: int) -> Values | Missing:
        read.append(stop - start)
        return reads(self, data, start, stop, *more)

    monkeypatch.setattr(Plan, "read", counted)
    talk = Talk(front(max_publish_rate=100))
    whole = service.message((1, b"x" * 1_000), (2, TOPIC), (3, 7))
    stream = talk.call(LATE_PUBLISH, b"", end=False)
    for byte in whole:
        talk.wire.client.h2.send_data(stream, bytes((byte,)))
    talk.wire.settle()
    assert bytes(talk.wire.server.seen[stream].data) == whole
    assert sum(read) <= 3 * len(whole)


def test_a_later_message_of_a_call_is_decided_by_its_beginning() -> None:
    talk = Talk(front(max_publish_rate=100))
    talk.attach()
    whole = service.publish(TOPIC, 7, b"x" * 1_000)
    stream = talk.call(PUBLISH, whole[:500], end=False)
    sent = whole[:500]
    for part in (whole[500:], whole[:100], whole[100:]):
        talk.send(stream, part)
        sent += part
        assert bytes(talk.wire.server.seen[stream].data) == sent


def test_a_message_too_large_to_buffer_is_refused() -> None:
    talk = Talk(front(limits=Limits(message_bytes=10_000)))
    stream = talk.call(
        LATE_PUBLISH, service.message((1, b"x" * 50_000), (2, TOPIC), (3, 7))[:12_000], end=False
    )
    assert talk.refused(stream)[0] == "8"
    assert talk.shared.counts["message_too_large"] == 1
    talk.hang_up()


def test_compressed_messages_are_read() -> None:
    talk = Talk(front(max_message_size=100))
    talk.attach()
    raw = service.field(1, TOPIC) + service.field(2, 7) + service.field(3, b"x" * 500)
    packed = service.framed(gzip.compress(raw), compressed=1)
    assert len(packed) < 100
    code, text = talk.refused(talk.call(PUBLISH, packed, ("grpc-encoding", "gzip")))
    assert (code, "Current: 500 bytes" in text) == ("3", True)
    assert talk.refused(talk.call(PUBLISH, packed, ("grpc-encoding", "snappy")))[0] == "12"
    assert (
        talk.refused(talk.call(PUBLISH, service.framed(b"no gzip", 1), ("grpc-encoding", "gzip")))[0] == "3"
    )
    bomb = service.framed(gzip.compress(bytes(20 * 1024 * 1024)), compressed=1)
    assert talk.refused(talk.call(PUBLISH, bomb[:16_000], ("grpc-encoding", "gzip")))[0] == "3"


@pytest.mark.parametrize("message", [b"\0\0\0\0\x05", b"\0\0", b"\0\0\0\0\x02\x0a\x7f"])
def test_a_malformed_message_is_refused(message: bytes) -> None:
    talk = Talk()
    assert talk.refused(talk.call(PUBLISH, message))[0] == "3"
    assert not talk.client(talk.publish()).is_over
