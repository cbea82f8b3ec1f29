"""Compressed batches under `inspect: true` are judged by the messages that they hold."""

import asyncio
import os
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from tests.kafka.codec.packing import FORMS, packed_batch
from tests.kafka.session.messages import batch, outcome, produce, produced, throttle_ms, topics_of
from tests.kafka.session.wire import SECOND, Bench, Wire
from tests.waiting import until_so

from sluicegate.broker import Ask
from sluicegate.engine.budget import Budget
from sluicegate.model import PolicyValue
from sluicegate.net.relaying.turns import Turns
from sluicegate_kafka.codec import compression, record_walk
from sluicegate_kafka.codec.compression import unpacked
from sluicegate_kafka.codec.record_walk import HEADER, RECORDS_PER_SLICE
from sluicegate_kafka.codec.records import Bytes, headers_size
from sluicegate_kafka.codec.unpacked_walk import PIECE
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.front import KafkaFront
from sluicegate_kafka.session.producing import inspecting
from sluicegate_kafka.session.producing.unpacking import Unpacking

LIMIT = 1_000


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches are unpacked at once, as in a gateway that has unpacked one before."""
    monkeypatch.setattr(Unpacking, "is_loaded", True)


def inspecting_wire(**options: PolicyValue) -> Wire:
    """A connection to a gateway that looks into compressed batches."""
    policies: dict[str, PolicyValue] = {"max_message_size": LIMIT, "inspect": True}
    return Wire(Bench(**(policies | options)))


def inspect(wire: Wire, most: int = 10_000) -> int:
    """Give a session up to `most` turns and answers, while it asks for any; how many it took."""
    for taken in range(most):
        asked = [command for command in wire.commands if isinstance(command, Ask)]
        if not asked:
            return taken
        wire.commands.remove(asked[0])
        if isinstance(asked[0].question, Unpacking):
            asked[0].question.run()
        wire.front_answers(asked[0].question)
    return most


def zlib_batch(records: bytes, count: int) -> bytes:
    """A gzip batch of these records, most of which repeat."""
    return packed_batch(claiming(batch(b"")[:61], count) + records, "gzip")


def tiny_records(count: int) -> bytes:
    """A small batch of so many records of seven bytes."""
    return zlib_batch(b"\x0c\0\0\0\x01\x01\0" * count, count)


def headers_record(count: int) -> bytes:
    """A record of so many empty headers, more than 63."""
    varint = bytes((2 * count & 0x7F | 0x80, 2 * count >> 7))
    rest = b"\0\0\0\x01\x01" + varint + bytes(2 * count)
    return bytes((2 * len(rest) & 0x7F | 0x80, 2 * len(rest) >> 7)) + rest


def headers_bomb() -> bytes:
    """Records of a thousand empty headers, each of them large enough to be over the limit."""
    return packed_batch(claiming(batch(b"")[:61], 50_000) + headers_record(1_000) * 50_000, "zstd")


def large_batch() -> bytes:
    """A batch that is too large to be unpacked in the event loop."""
    return packed_batch(batch(*(os.urandom(900) for _ in range(40))), "lz4")


def claiming(records: bytes, count: int) -> bytes:
    """A batch whose header claims another number of records."""
    return records[:57] + count.to_bytes(4, "big") + records[61:]


@pytest.mark.parametrize("form", FORMS)
def test_the_largest_message_of_a_compressed_batch_is_limited(form: str) -> None:
    wire = inspecting_wire()
    fits = packed_batch(batch(*[b"x" * LIMIT] * 50), form)
    wire.client_sends(produce({"t": fits}))
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
    first, second = large_batch(), batch(b"2")
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
    limits: list[int] = []

    def counted(codec: int, packed: bytes, limit: int) -> Iterator[bytes]:
        limits.append(limit)
        return unpacked(codec, packed, limit)

    monkeypatch.setattr(compression, "unpacked", counted)
    wire = Wire(Bench(max_message_size=0, inspect=True), max_frame_bytes="1MiB")
    half, bomb = (packed_batch(batch(bytes(size)), "zstd") for size in (600_000, 2 << 20))
    wire.client_sends(produce({"a": half, "b": bomb, "c": bomb, "d": bomb}))
    inspect(wire)
    assert wire.forwarded() != []
    assert len(limits) == 2
    assert limits[1] <= (1 << 20) - 600_000


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
    bench = Bench({"mode.inspect": "observe"}, max_message_size=0, inspect=True)
    wire = Wire(bench)
    wire.client_sends(produce({"t": claiming(packed_batch(batch(b"x"), "zstd"), 7)}))
    inspect(wire)
    assert len(wire.forwarded()) == 1


@pytest.mark.parametrize("acks", [-1, 0])
def test_a_failed_inspection_gets_a_retriable_code(acks: int) -> None:
    wire = inspecting_wire()
    wire.client_sends(produce({"t": large_batch()}, acks=acks))
    question = wire.asked[-1]
    assert isinstance(question, Unpacking)
    wire.carry_out(wire.session.answered(question, TimeoutError(), wire.now))
    assert wire.forwarded() == []
    assert [outcome(frame)["t", 0][0] for frame in wire.answered()] == ([19] if acks else [])
    assert wire.shared.counters()["inspection_failed"] == 1
    assert wire.shared.budget.used == 0
    assert not wire.shared.learned.listing.fresh("t", wire.now)


def test_an_inspection_lasts_no_longer_than_a_hold() -> None:
    wire = Wire(Bench(inspect=True), max_hold="5s")
    wire.client_sends(produce({"t": tiny_records(200_000)}))
    inspect(wire, 3)
    wire.now += 5 * SECOND + 1
    inspect(wire)
    assert outcome(wire.answered()[0])["t", 0][0] == 19


def test_an_exhausted_budget_gets_a_retriable_code() -> None:
    bench = Bench(inspect=True)
    wire = Wire(bench)
    assert bench.budget.take(64 * 1024 * 1024)
    wire.client_sends(produce({"t": large_batch()}))
    assert wire.asked == []
    assert outcome(wire.answered()[0])["t", 0][0] == 19


def test_inspections_leave_a_quarter_of_the_budget_to_others() -> None:
    bench = Bench(inspect=True, max_message_size=0)
    wire = Wire(bench)
    relief: list[None] = []
    bench.budget.on_pressure = lambda: relief.append(None)
    assert bench.budget.take(bench.budget.limit * 3 // 4 - 100_000)
    wire.client_sends(produce({"t": packed_batch(batch(bytes(300_000)), "zstd")}))
    assert outcome(wire.answered()[0])["t", 0][0] == 19
    wire.client_sends(produce({"t": packed_batch(batch(bytes(30_000)), "zstd")}))
    assert len(wire.forwarded()) == 1
    assert relief == []


def test_an_inspection_without_room_for_its_request_gives_all_back(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(inspect=True, max_message_size=0)
    wire = Wire(bench)
    frame = produce({"t": large_batch()})
    taken = bench.budget.limit * 3 // 4 - 3 * len(frame)
    assert bench.budget.take(taken)
    take = Budget.take
    refused: list[int] = []

    def without_room(budget: Budget, nbytes: int) -> bool:
        if nbytes != len(frame):
            return take(budget, nbytes)
        refused.append(nbytes)
        return False

    monkeypatch.setattr(Budget, "take", without_room)
    wire.client_sends(frame)
    assert len(refused) == 1
    assert outcome(wire.answered()[0])["t", 0][0] == 19
    assert bench.budget.used == taken


def test_requests_of_a_closed_client_are_not_forwarded() -> None:
    wire = inspecting_wire()
    wire.client_sends(produce({"t": large_batch()}))
    wire.session.closed(wire.now)
    assert wire.shared.budget.used == 0
    inspect(wire)
    assert wire.forwarded() == []


def test_an_inspection_ends_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []

    def counted(codec: int, packed: bytes, limit: int) -> Iterator[bytes]:
        for piece in unpacked(codec, packed, limit):
            pieces.append(len(piece))
            yield piece

    monkeypatch.setattr(compression, "unpacked", counted)
    wire = inspecting_wire()
    wire.client_sends(produce({"t": tiny_records(900_000)}))
    inspect(wire, 10)
    before = len(pieces)
    assert 0 < before < 900_000 * 7 // PIECE
    assert wire.session.held_bytes > PIECE
    wire.session.closed(wire.now)
    assert wire.shared.budget.used == 0
    assert inspect(wire, 10) <= 1
    assert len(pieces) == before


def test_a_record_costs_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """50,000 records of 1,000 empty headers each are 9 kB on the wire, and minutes of work."""
    wire = inspecting_wire()
    wire.client_sends(produce({"t": headers_bomb()}))
    most = inspecting.MAX_WORK // RECORDS_PER_SLICE
    assert inspect(wire) < most * 1.2
    assert wire.forwarded() == []
    ((code, text),) = outcome(wire.answered()[0]).values()
    assert code == 44
    assert "more small pieces or headers in a request than are inspected" in str(text)


def test_headers_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(buffer: Bytes, at: int, end: int, headers: int) -> int:
        read.append(headers)
        return headers_size(buffer, at, end, headers)

    monkeypatch.setattr(record_walk, "headers_size", counted)
    monkeypatch.setattr(inspecting, "MAX_WORK", 50_000)
    wire = inspecting_wire()
    wire.client_sends(produce({"t": headers_bomb()}))
    inspect(wire)
    assert outcome(wire.answered()[0])["t", 0][0] == 44
    assert 0 < sum(read) * HEADER < 50_000


def test_records_that_cannot_be_over_the_limit_are_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspecting, "MAX_WORK", 50_000)
    wire = inspecting_wire(max_message_size=2_100)
    few = zlib_batch(headers_record(1_000) * 500, 500)
    wire.client_sends(produce({"t": few}))
    inspect(wire)
    assert len(wire.forwarded()) == 1


def test_many_small_batches_yield_to_others() -> None:
    wire = inspecting_wire()
    small = packed_batch(batch(b"x"), "gzip")
    wire.client_sends(produce({f"t{number}": small for number in range(1_000)}))
    assert inspect(wire) >= 1_000 * 100 // RECORDS_PER_SLICE
    assert len(wire.forwarded()) == 1


async def test_four_attackers_leave_a_fifth_of_the_turns() -> None:
    """A client beside four attackers waits for four slices at a time, not for four batches."""
    order: list[str] = []
    turns = Turns(asyncio.get_running_loop())
    bench = Bench(inspect=True)
    wires = {name: Wire(bench, peer=f"10.0.0.{name}:1") for name in "12345"}

    def schedule(name: str) -> None:
        wire = wires[name]
        while wire.commands:
            command = wire.commands.pop()
            if isinstance(command, Ask):
                turns.slice(name, partial(step, name, command.question))

    def step(name: str, question: object) -> None:
        order.append(name)
        wires[name].front_answers(question)
        schedule(name)

    for name, wire in wires.items():
        wire.client_sends(produce({"t": tiny_records(100_000 if name == "5" else 900_000)}))
        schedule(name)
    await until_so(lambda: bool(wires["5"].upstream))
    for wire in wires.values():
        wire.session.closed(wire.now)
    rounds = order.count("5")
    assert rounds >= 10
    assert order[: 5 * rounds] == list("12345") * rounds


def test_a_thread_loads_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Unpacking, "is_loaded", False)
    wire = inspecting_wire()
    wire.client_sends(produce({"t": packed_batch(batch(b"x"), "zstd")}))
    assert isinstance(wire.asked[0], Unpacking)
    inspect(wire)
    assert len(wire.forwarded()) == 1
    wire.client_sends(produce({"t": packed_batch(batch(b"x"), "zstd")}, correlation_id=2))
    assert len(wire.forwarded()) == 1


async def test_the_front_unpacks_large_batches_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = inspecting_wire()
    wire.client_sends(produce({"t": large_batch()}))
    (question,) = wire.asked
    assert isinstance(question, Unpacking)
    threads: list[str] = []
    run = Unpacking.run

    def noted(unpacking: Unpacking) -> None:
        threads.append(threading.current_thread().name)
        run(unpacking)

    monkeypatch.setattr(Unpacking, "run", noted)
    entry = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}
    front = KafkaFront(KafkaConfig.model_validate(entry))
    await front.answer(question)
    await front.stop()
    wire.commands.clear()
    wire.front_answers(question)
    assert threads == ["sluicegate-inspect_0"]
    assert len(wire.forwarded()) == 1
