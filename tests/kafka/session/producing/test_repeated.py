"""The short path for a request that resembles the last one gives the results of the long path."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka.session.messages import batch, produce, produced, publish
from tests.kafka.session.wire import Bench, Wire

from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.codec.produce_responses import refusal_response
from sluicegate_kafka.session.producing.producing import Producing

POLICIES: dict[str, int] = {"max_publish_rate": 50, "max_message_size": 40, "max_producers_per_topic": 2}

requests = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["t", "t", "t", "u"]),
        "sizes": st.lists(st.sampled_from([0, 10, 40, 41, 200]), min_size=1, max_size=3),
        "producer_id": st.sampled_from([-1, -1, 7, 8]),
        "client_id": st.sampled_from(["app", "app", "other"]),
        "acks": st.sampled_from([-1, -1, 1, 0]),
        "spoil": st.sampled_from([None] * 8 + ["length", "magic", "tags", "cut"]),
        "pause": st.sampled_from([0.0, 0.0, 0.01, 0.5]),
    }
)


def spoiled(frame: bytes, how: str | None) -> bytes:
    """A frame with one thing wrong behind the part that requests share."""
    changed = bytearray(frame)
    batch_at = frame.rindex(b"\x02", 0, len(frame)) if how == "magic" else 0
    if how == "magic":
        changed[batch_at] = 1
    elif how == "tags":
        changed[-1] = 9
    elif how == "length":
        changed[-4] ^= 0xFF
    elif how == "cut":
        changed = changed[:-2]
        changed[:4] = (len(changed) - 4).to_bytes(4, "big")
    return bytes(changed)


def longhand(wire: Wire) -> Wire:
    """The same session without the short way."""

    class Longhand(Producing):
        __slots__ = ()

        def _look_out(self, *_: object) -> None:
            """Never have anything passed the short way."""

    wire.session.producing.__class__ = Longhand
    return wire


@settings(max_examples=150, deadline=None)
@given(st.lists(requests, min_size=2, max_size=20))
def test_the_short_and_the_long_path_agree(script: list[dict[str, Any]]) -> None:
    short, long = Wire(Bench(POLICIES)), longhand(Wire(Bench(POLICIES)))
    for number, one in enumerate(script):
        records = batch(
            *(b"x" * size for size in one["sizes"]), producer_id=one["producer_id"], sequence=number
        )
        frame = produce(
            {one["topic"]: records}, correlation_id=number, acks=one["acks"], client_id=one["client_id"]
        )
        for wire in (short, long):
            wire.client_sends(spoiled(frame, one["spoil"]))
            wire.wait(one["pause"])
        if short.closed is not None or long.closed is not None:
            break
    assert short.upstream == long.upstream
    assert short.downstream == long.downstream
    assert (short.closed is None) == (long.closed is None)
    assert len(short.session.connection.outstanding) == len(long.session.connection.outstanding)
    for topic in ("t", "u"):
        ours, theirs = (wire.shared.gate(topic, False, wire.now).state for wire in (short, long))
        for counter in ("allowed_messages", "allowed_bytes", "rejected", "delayed", "dropped"):
            assert getattr(ours, counter) == getattr(theirs, counter)
        assert (ours.size_counts, ours.batch_counts) == (theirs.size_counts, theirs.batch_counts)
        assert len(ours.producers) == len(theirs.producers)


def test_the_short_path_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(Bench(max_publish_rate=1000))
    publish(wire, {"t": batch(b"first")})
    publish(wire, {"t": batch(b"second")})

    def too_long(*arguments: object) -> None:
        raise AssertionError("the request was read the long way")

    monkeypatch.setattr("sluicegate_kafka.session.producing.producing.scan_plain", too_long)
    assert publish(wire, {"t": batch(b"third", b"fourth")})["t", 0][0] == 0
    assert wire.shared.gate("t", False, wire.now).state.allowed_messages == 4


def test_a_policy_change_ends_the_short_path_until_the_gate_is_resolved_again() -> None:
    bench = Bench(max_publish_rate=1000)
    wire = Wire(bench)
    for _ in range(2):
        publish(wire, {"t": batch(b"x" * 30)})
    assert wire.session.producing.repeated is not None
    bench.set(max_message_size=20)
    assert publish(wire, {"t": batch(b"x" * 30)})["t", 0][0] == 10


def test_requests_for_several_topics_are_not_repeatable() -> None:
    wire = Wire(Bench())
    frame = produce({"a": batch(b"x"), "b": batch(b"y")})
    for _ in range(2):
        wire.client_sends(frame)
        wire.broker_sends(produced("a", "b"))
    assert wire.session.producing.repeated is None


@pytest.mark.parametrize("version", [10, 12])
def test_a_response_passes_by_its_length_unless_broker_addresses_make_it_longer(version: int) -> None:
    wire = Wire(Bench())
    sent = bytearray(produce({"t": batch(b"x")}))
    sent[6:8] = version.to_bytes(2, "big")  # 9 to 12 are written alike
    plain = refusal_response(version, 1, [("t", [0], 0, "")], 0)
    quiet = with_length([plain[4:].replace(b"\1\1\0\0", b"\1\0\0\0")])  # no text instead of an empty one
    for _ in range(3):
        wire.client_sends(bytes(sent))
        for at in range(0, len(quiet), 9):
            wire.broker_sends(quiet[at : at + 9])
        assert wire.downstream == quiet
        wire.downstream = b""
    endpoint = b"\0\0\0\7\2h\0\0\x23\x84\0\0"  # node 7 at h:9092, no rack, no tags
    tagged = with_length([quiet[4:-1], b"\1\0", bytes([len(endpoint) + 1]), b"\2", endpoint])
    wire.client_sends(bytes(sent))
    wire.broker_sends(tagged)
    assert wire.closed is None
    assert len(wire.downstream) > len(quiet)
    assert wire.downstream != tagged
    assert b"gate" in wire.downstream
