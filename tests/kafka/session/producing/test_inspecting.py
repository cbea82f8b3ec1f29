"""Compressed batches under `inspect: true` are judged by the messages that they hold."""

import asyncio

import pytest
from tests.kafka.codec.packing import FORMS, packed_batch
from tests.kafka.session.messages import batch, outcome, produce, produced, throttle_ms, topics_of
from tests.kafka.session.wire import Bench, Wire

from sluicegate.model import PolicyValue
from sluicegate_kafka.codec import compression
from sluicegate_kafka.codec.compression import unpacked as compression_unpacked
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.front import KafkaFront
from sluicegate_kafka.session.producing import inspecting
from sluicegate_kafka.session.producing.inspecting import Inspection

LIMIT = 1_000


def inspecting_wire(**options: PolicyValue) -> Wire:
    """A connection to a gateway that looks into compressed batches."""
    policies: dict[str, PolicyValue] = {"max_message_size": LIMIT, "inspect": True}
    return Wire(Bench(**(policies | options)))


def inspect(wire: Wire) -> None:
    """What the front does: have a thread look, then tell the session."""
    question = wire.asked[-1]
    assert isinstance(question, Inspection)
    question.run()
    wire.carry_out(wire.session.answered(question, None, wire.now))


def claiming(records: bytes, count: int) -> bytes:
    """A batch whose header claims another number of records."""
    return records[:57] + count.to_bytes(4, "big") + records[61:]


@pytest.mark.parametrize("form", FORMS)
def test_the_largest_message_of_a_compressed_batch_is_limited(form: str) -> None:
    wire = inspecting_wire()
    fits = packed_batch(batch(*[b"x" * LIMIT] * 50), form)
    wire.client_sends(produce({"t": fits}))
    assert wire.forwarded() == []
    inspect(wire)
    (forwarded,) = wire.forwarded()
    assert topics_of(forwarded) == ["t"]
    assert fits in forwarded
    wire.broker_sends(produced("t"))
    wire.answered()
    too_large = packed_batch(batch(b"x", b"y" * (LIMIT + 1)), form)
    assert len(too_large) < LIMIT
    wire.client_sends(produce({"t": too_large}))
    inspect(wire)
    assert wire.forwarded() == []
    ((code, text),) = outcome(wire.answered()[0]).values()
    assert code == 44
    assert text is not None
    assert f"Current: {LIMIT + 1} bytes, Limit: {LIMIT} bytes" in text


def test_a_compressed_batch_counts_whole_without_inspection() -> None:
    wire = inspecting_wire(inspect=False)
    wire.client_sends(produce({"t": packed_batch(batch(b"y" * (LIMIT + 1)), "zstd")}))
    assert wire.asked == []
    assert len(wire.forwarded()) == 1


def test_uncompressed_batches_do_not_wait() -> None:
    wire = inspecting_wire()
    wire.client_sends(produce({"t": batch(b"x")}))
    assert wire.asked == []
    assert len(wire.forwarded()) == 1


def test_later_requests_wait_in_order_behind_an_inspection() -> None:
    wire = inspecting_wire()
    first, second = packed_batch(batch(b"1"), "lz4"), batch(b"2")
    wire.client_sends(produce({"t": first}) + produce({"t": second}, correlation_id=2))
    assert wire.forwarded() == []
    inspect(wire)
    forwarded = wire.forwarded()
    assert [first in forwarded[0], second in forwarded[1]] == [True, True]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("claimed", [1, 99, 101])
def test_a_false_number_of_records_is_refused(form: str, claimed: int) -> None:
    wire = inspecting_wire(max_publish_rate=100)
    false = claiming(packed_batch(batch(*[b"x"] * 100), form), claimed)
    wire.client_sends(produce({"t": false}))
    inspect(wire)
    assert wire.forwarded() == []
    ((code, text),) = outcome(wire.answered()[0]).values()
    assert code == 44
    false_number = "100 records in a batch that claims 101"
    assert (false_number if claimed > 100 else f"than the {claimed} that it claims") in str(text)


def test_rates_count_the_records_of_an_inspected_batch() -> None:
    wire = inspecting_wire(max_publish_rate=100)
    full = packed_batch(batch(*[b"x"] * 100), "zstd")
    for correlation_id in (1, 2):
        wire.client_sends(produce({"t": full}, correlation_id=correlation_id))
        inspect(wire)
    assert len(wire.forwarded()) == 1
    wire.wait(1)
    assert len(wire.forwarded()) == 1
    for correlation_id in (1, 2):
        wire.broker_sends(produced("t", correlation_id=correlation_id))
    assert throttle_ms(wire.answered()[1]) > 0


def test_a_decompression_bomb_is_refused_at_its_bound() -> None:
    wire = Wire(Bench(max_message_size=0, inspect=True), max_frame_bytes="1MiB")
    bomb = packed_batch(batch(bytes(2 << 20)), "zstd")
    assert len(bomb) < 1_000
    wire.client_sends(produce({"t": bomb}))
    inspect(wire)
    assert wire.forwarded() == []
    ((code, text),) = outcome(wire.answered()[0]).values()
    assert code == 44
    assert "more than the 1048576 bytes that are unpacked at most" in str(text)


def test_many_decompression_bombs_cost_no_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counted(codec: int, packed: bytes, limit: int) -> bytes:
        asked.append(limit)
        return compression_unpacked(codec, packed, limit)

    monkeypatch.setattr(compression, "unpacked", counted)
    wire = Wire(Bench(max_message_size=0, inspect=True), max_frame_bytes="1MiB")
    half, bomb = (packed_batch(batch(bytes(size)), "zstd") for size in (600_000, 2 << 20))
    wire.client_sends(produce({"a": half, "b": bomb, "c": bomb, "d": bomb}))
    inspect(wire)
    assert wire.forwarded() != []
    assert len(asked) == 2
    assert asked[1] <= (1 << 20) - 600_000


def test_a_batch_with_too_many_records_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspecting, "MAX_RECORDS", 9)
    wire = inspecting_wire()
    wire.client_sends(produce({"t": packed_batch(batch(*[b"x"] * 10), "gzip")}))
    inspect(wire)
    assert "10 records in a batch, but at most 9 more of its request are inspected" in str(
        outcome(wire.answered()[0])
    )


def test_the_text_counts_the_records_that_earlier_batches_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspecting, "MAX_RECORDS", 9)
    wire = inspecting_wire()
    six = packed_batch(batch(*[b"x"] * 6), "gzip")
    wire.client_sends(produce({"a": six, "b": six}))
    inspect(wire)
    (forwarded,) = wire.forwarded()
    assert topics_of(forwarded) == ["a"]
    wire.broker_sends(produced("a"))
    code, text = outcome(wire.answered()[0])["b", 0]
    assert code == 44
    assert "6 records in a batch, but at most 3 more of its request are inspected" in str(text)


def test_a_damaged_batch_is_refused_and_others_of_the_request_pass() -> None:
    wire = inspecting_wire()
    good = packed_batch(batch(b"x"), "zstd")
    bad = good[:61] + bytes(len(good) - 61)
    wire.client_sends(produce({"good": good, "bad": bad, "plain": batch(b"x")}))
    inspect(wire)
    (forwarded,) = wire.forwarded()
    assert topics_of(forwarded) == ["good", "plain"]
    wire.broker_sends(produced("good", "plain"))
    told = outcome(wire.answered()[0])
    assert {topic: code for (topic, _), (code, _) in told.items()} == {"good": 0, "bad": 44, "plain": 0}
    assert "damaged zstd data" in str(told["bad", 0][1])


def test_observe_only_refuses_no_batch() -> None:
    bench = Bench({"observe_only.inspect": True}, max_message_size=0, inspect=True)
    wire = Wire(bench)
    wire.client_sends(produce({"t": claiming(packed_batch(batch(b"x"), "zstd"), 7)}))
    inspect(wire)
    assert len(wire.forwarded()) == 1


@pytest.mark.parametrize("acks", [-1, 0])
def test_a_failed_inspection_gets_a_retriable_code(acks: int) -> None:
    wire = inspecting_wire()
    wire.client_sends(produce({"t": packed_batch(batch(b"x"), "zstd")}, acks=acks))
    question = wire.asked[-1]
    wire.carry_out(wire.session.answered(question, TimeoutError(), wire.now))
    assert wire.forwarded() == []
    assert [outcome(frame)["t", 0][0] for frame in wire.answered()] == ([19] if acks else [])
    assert wire.shared.counters()["inspection_failed"] == 1
    assert not wire.shared.listing.fresh("t", wire.now)


def test_an_exhausted_budget_gets_a_retriable_code() -> None:
    bench = Bench(inspect=True)
    wire = Wire(bench)
    assert bench.budget.take(64 * 1024 * 1024)
    wire.client_sends(produce({"t": packed_batch(batch(b"x"), "zstd")}))
    assert wire.asked == []
    assert outcome(wire.answered()[0])["t", 0][0] == 19


def test_requests_of_a_closed_client_are_not_forwarded() -> None:
    wire = inspecting_wire()
    wire.client_sends(produce({"t": packed_batch(batch(b"x"), "zstd")}))
    wire.session.closed(wire.now)
    assert wire.shared.budget.used == 0
    inspect(wire)
    assert wire.forwarded() == []


def test_the_front_inspects_in_a_thread() -> None:
    wire = inspecting_wire()
    wire.client_sends(produce({"t": packed_batch(batch(b"x"), "zstd")}))
    (question,) = wire.asked
    assert isinstance(question, Inspection)
    entry = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}

    async def ask() -> None:
        front = KafkaFront(KafkaConfig.model_validate(entry))
        await front.answer(question)
        await front.stop()

    asyncio.run(ask())
    assert question.found is not None
    assert question.found[0].problem == ""
    assert question.found[0].largest == 1
