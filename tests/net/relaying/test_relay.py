import asyncio
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

import pytest
from tests.gateway.lab import closed_port, lab, on_uvloop, upstream
from tests.waiting import LONG_S

from sluicegate.net.relaying import draining as drains

HOUR_S = 3600
HOUR_NS = HOUR_S * 1_000_000_000


async def end(reader: asyncio.StreamReader) -> bytes:
    """All that still comes until the connection ends, however it ends."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@contextmanager
def unanswered() -> Iterator[int]:
    """A port with a full backlog that is never accepted from: another connection gets no answer."""
    with socket.socket() as silent, ExitStack() as stack:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        port: int = silent.getsockname()[1]
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port


@on_uvloop
async def test_bytes_go_both_ways_in_order() -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        for number in range(200):
            writer.write(b"line %d\n" % number)
        received = [await reader.readline() for _ in range(200)]
        assert received == [b"line %d\n" % number for number in range(200)]
        writer.close()
        await it.until(lambda: len(it.connections) == 0)
        assert len(it.front.closed) == 1
        assert it.connections.bytes_from_clients == it.connections.bytes_from_brokers > 0


@on_uvloop
async def test_bytes_read_before_the_broker_connects_are_sent_first() -> None:
    async with upstream() as port, lab(closed_port(), port) as it:
        reader, writer = await it.connect()
        writer.write(b"first\nsecond\n")
        assert await reader.readexactly(13) == b"first\nsecond\n"
        assert it.counts["upstream_dials_failed"] == 1
        writer.close()


@on_uvloop
async def test_the_address_that_worked_last_is_tried_first() -> None:
    async with upstream() as port, lab(closed_port(), port) as it:
        for _ in range(3):
            reader, writer = await it.connect()
            writer.write(b"x\n")
            assert await reader.readline() == b"x\n"
            writer.close()
        assert it.counts["upstream_dials_failed"] == 1


@on_uvloop
async def test_client_is_closed_when_no_broker_answers_and_others_are_served() -> None:
    async with lab(closed_port(), closed_port()) as it:
        reader, writer = await it.connect()
        writer.write(b"hello\n")
        assert await end(reader) == b""
        assert it.counts["upstream_unreachable"] == 1
        assert it.counts["upstream_dials_failed"] == 2
        writer.close()


@on_uvloop
async def test_a_session_may_choose_its_broker() -> None:
    async with upstream() as port, lab() as it:
        reader, writer = await it.connect()
        writer.write(b"answer\n")  # the session works before there is any broker
        assert await reader.readline() == b"one two\n"
        line = f"dial {closed_port()} {port}\n".encode()
        writer.write(line + b"behind\n")
        assert await reader.readexactly(len(line) + 7) == line + b"behind\n"
        assert it.counts["upstream_dials_failed"] == 1
        writer.close()
        await it.until(lambda: len(it.connections) == 0)
        assert len(it.front.closed) == 1


@on_uvloop
async def test_a_client_is_closed_when_its_chosen_broker_does_not_answer() -> None:
    async with lab() as it:
        reader, writer = await it.connect()
        writer.write(f"dial {closed_port()}\n".encode())
        assert await end(reader) == b""
        assert it.counts["upstream_unreachable"] == 1
        writer.close()
        await it.until(lambda: len(it.connections) == 0)


@on_uvloop
async def test_a_client_that_leaves_while_its_broker_is_dialled_is_forgotten() -> None:
    async with upstream() as port, lab() as it:
        _, writer = await it.connect()
        writer.write(f"dial {port}\n".encode())
        writer.transport.abort()
        await it.until(lambda: it.counts["connections_closed"] == 1)
        assert len(it.connections) == 0


@on_uvloop
async def test_dialling_times_out() -> None:
    with unanswered() as port:
        async with lab(port, dial_s=0.1) as it:
            reader, writer = await it.connect()
            writer.write(b"hello\n")
            async with asyncio.timeout(100):  # the kernel alone gives up after 127 s
                assert await end(reader) == b""
            assert it.counts["upstream_unreachable"] == 1
            writer.close()


@on_uvloop
async def test_bytes_read_while_the_broker_is_dialled_are_bounded() -> None:
    with unanswered() as port:
        async with lab(port) as it:
            _, writer = await it.connect()
            writer.write(b"x" * 20_000_000)
            await it.settled(writer.transport.get_write_buffer_size)
            await it.sweep()
            assert 0 < it.connections.buffered_bytes < 2_000_000
            writer.transport.abort()


@on_uvloop
async def test_broker_that_resets_ends_only_its_client() -> None:
    async def reset_on_x(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if data.startswith(b"x"):
                writer.transport.abort()
                return
            writer.write(data)

    async with upstream(reset_on_x) as port, lab(port) as it:
        reader, writer = await it.connect()
        other_reader, other_writer = await it.connect()
        writer.write(b"x\n")
        assert await end(reader) == b""
        other_writer.write(b"hello\n")
        assert await other_reader.readline() == b"hello\n"
        assert it.counts["upstream_closed"] == 1
        writer.close()
        other_writer.close()


@on_uvloop
async def test_a_client_that_leaves_is_not_counted_as_left_by_its_broker() -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        writer.write(b"x\n")
        assert await reader.readline() == b"x\n"
        writer.close()  # upon which the broker, who is told so, closes, too
        await it.until(lambda: it.counts["connections_closed"] == 1)
        assert it.counts["upstream_closed"] == 0


@on_uvloop
async def test_bytes_sent_by_the_broker_before_it_closed_reach_the_client() -> None:
    async def last_words(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"y" * 3_000_000)
        writer.close()

    async with upstream(last_words) as port, lab(port) as it:
        reader, writer = await it.connect()
        writer.write(b"go\n")
        assert len(await reader.read()) == 3_000_000
        writer.close()


@on_uvloop
async def test_slow_reader_gets_every_byte_and_does_not_hold_a_fast_one() -> None:
    payload = os.urandom(1 << 20) * 24

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(payload)
        await writer.drain()

    async with upstream(flood) as port, lab(port, name="raw") as it:
        slow_reader, slow_writer = await it.connect(limit=4096)
        await it.say(slow_writer, b"go\n")
        await it.settled(lambda: it.connections.bytes_from_brokers)
        reader, writer = await it.connect()
        writer.write(b"go\n")
        assert (
            hashlib.sha256(await reader.readexactly(len(payload))).digest()
            == hashlib.sha256(payload).digest()
        )
        await it.sweep()
        # The slow one costs a bounded amount, not the whole payload: the broker is held back.
        assert 0 < it.connections.buffered_bytes < 2_000_000
        slow = hashlib.sha256()
        left = len(payload)
        while left:
            part = await slow_reader.read(65536)
            slow.update(part)
            left -= len(part)
        assert slow.digest() == hashlib.sha256(payload).digest()
        for each in (slow_writer, writer):
            each.close()


@on_uvloop
async def test_slow_broker_pauses_the_client_and_no_byte_is_lost() -> None:
    received = hashlib.sha256()
    go = asyncio.Event()

    async def sluggish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        while data := await reader.read(16384):
            received.update(data)
        writer.write(b"done")
        writer.close()

    payload = os.urandom(1 << 20) * 24
    async with upstream(sluggish, limit=4096) as port, lab(port, name="raw") as it:
        reader, writer = await it.connect()
        writer.write(payload)
        await it.served(1)
        await it.settled(writer.transport.get_write_buffer_size)
        await it.sweep()
        assert it.connections.buffered_bytes < 2_000_000
        go.set()
        writer.write_eof()
        assert await reader.read() == b"done"
        assert received.digest() == hashlib.sha256(payload).digest()
        writer.close()


@on_uvloop
async def test_half_closed_client_still_gets_its_answers() -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        writer.write(b"all I have to say\n")
        writer.write_eof()
        assert await reader.read() == b"all I have to say\n"
        writer.close()
        await it.until(lambda: len(it.connections) == 0)


@on_uvloop
async def test_wakes_on_time_and_never_early() -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        for wait_ms in (1, 3, 40):
            began = monotonic()
            writer.write(b"hold %d\n" % wait_ms)
            assert await reader.readline() == b"hold %d\n" % wait_ms
            assert wait_ms / 1000 <= monotonic() - began
        writer.close()


@on_uvloop
async def test_pause_withholds_later_bytes_and_keeps_their_order() -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        writer.write(b"before\n")
        assert await reader.readline() == b"before\n"
        began = monotonic()
        await it.say(writer, b"pause 50\n")
        writer.write(b"after 1\nafter 2\n")
        assert await reader.readexactly(16) == b"after 1\nafter 2\n"
        assert monotonic() - began >= 0.05
        writer.close()


@on_uvloop
async def test_held_request_of_a_client_that_hung_up_is_not_forwarded() -> None:
    seen = bytearray()

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            seen.extend(data)
        writer.close()

    async with upstream(note) as port, lab(port) as it:
        _, writer = await it.connect()
        await it.say(writer, b"hold 3600000\n")
        writer.close()
        await it.until(lambda: len(it.connections) == 0)
        assert it.front.wakes[-1][1] is True
        assert bytes(seen) == b""
        assert it.counts["client_gone"] == 1


@on_uvloop
async def test_hang_up_is_detected_while_reading_is_paused() -> None:
    async with upstream() as port, lab(port) as it:
        _, writer = await it.connect()
        await it.say(writer, b"pause 3600000\n")
        writer.close()
        await writer.wait_closed()
        assert not it.front.wakes
        await it.sweep()
        assert it.front.wakes[-1][1] is True
        await it.until(lambda: len(it.connections) == 0)


@on_uvloop
async def test_wake_reports_that_the_client_is_gone() -> None:
    async with upstream() as port, lab(port) as it:
        client = socket.create_connection(it.acceptor.address)
        await it.served(1)
        client.sendall(b"pause 80\n")
        client.close()  # before the gateway has had a chance to read
        await it.until(lambda: it.front.wakes)
        assert it.front.wakes == [(it.front.wakes[0][0], True)]


@on_uvloop
async def test_ask_is_answered_before_anything_later_is_read() -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        await it.say(writer, b"ask who\n")
        writer.write(b"later\n")
        assert await reader.readline() == b"who: known\n"
        assert await reader.readline() == b"later\n"
        writer.write(b"ask nobody\n")
        assert await reader.readline() == b"nobody: nobody knows\n"
        assert it.counts["questions_failed"] == 1
        writer.close()


@on_uvloop
async def test_answer_that_comes_after_the_client_left_is_dropped() -> None:
    async with upstream() as port, lab(port) as it:
        _, writer = await it.connect()
        await it.say(writer, b"ask who\n")
        writer.transport.abort()
        await it.served(0)
        assert it.counts["session_faults"] == 0


@on_uvloop
async def test_close_sends_what_came_before_it_and_nothing_after() -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        writer.write(b"answer\nbye\n")
        assert await end(reader) == b"one two\nbye\n"
        assert it.counts["asked_to_close"] == 1
        assert len(it.front.closed) == 1
        writer.close()


@on_uvloop
async def test_raising_session_ends_its_client_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        other_reader, other_writer = await it.connect()
        writer.write(b"raise\n")
        assert await end(reader) == b""
        other_writer.write(b"still here\n")
        assert await other_reader.readline() == b"still here\n"
        assert it.counts["session_faults"] == 1
        faults = [record for record in caplog.records if "session raised" in record.getMessage()]
        assert len(faults) == 1
        assert "RuntimeError: the session has a bug" in faults[0].getMessage()
        assert len(it.front.closed) == 1
        for each in (writer, other_writer):
            each.close()


@on_uvloop
async def test_an_unfinished_frame_times_out_even_if_bytes_trickle_in() -> None:
    async with upstream() as port, lab(port, frame_ns=HOUR_NS) as it:
        reader, writer = await it.connect()
        other_reader, other_writer = await it.connect()
        writer.write(b"whole\npart")
        assert await reader.readline() == b"whole\n"
        other_writer.write(b"fine\n")
        assert await other_reader.readline() == b"fine\n"
        await it.sweep(after_s=HOUR_S / 2)
        await it.say(writer, b"y")
        await it.sweep(after_s=HOUR_S + 1)
        assert await end(reader) == b""
        assert it.counts["frame_timed_out"] == 1
        other_writer.write(b"still here\n")
        assert await other_reader.readline() == b"still here\n"
        for each in (writer, other_writer):
            each.close()


@on_uvloop
async def test_silent_client_times_out() -> None:
    async with upstream() as port, lab(port, idle_ns=HOUR_NS) as it:
        reader, writer = await it.connect()
        await it.served(1)
        await it.sweep(after_s=HOUR_S / 2)
        assert it.counts["idle_timed_out"] == 0
        await it.sweep(after_s=HOUR_S + 1)
        assert await end(reader) == b""
        assert it.counts["idle_timed_out"] == 1
        writer.close()


@on_uvloop
async def test_buffers_over_the_budget_close_the_largest_client() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.readline() == b"flood\n":
            writer.write(b"z" * 20_000_000)
            await writer.drain()
        await reader.read()

    async with upstream(flood) as port, lab(port, buffer_bytes=50_000) as it:
        _, greedy = await it.connect(limit=1024)
        _, modest = await it.connect()
        await it.say(modest, b"hello\n")
        await it.say(greedy, b"flood\n")
        await it.until(lambda: it.connections.bytes_from_brokers > 1_000_000)
        await it.settled(lambda: it.connections.bytes_from_brokers)
        await it.sweep()
        await it.until(lambda: len(it.connections) == 1)
        assert it.counts["buffer_budget_used_up"] == 1
        for each in (greedy, modest):
            each.close()


@on_uvloop
async def test_client_that_never_reads_cannot_keep_a_connection_open() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"z" * 20_000_000)
        await reader.read()

    async with upstream(flood) as port, lab(port, idle_ns=HOUR_NS, linger_ns=HOUR_NS) as it:
        _, writer = await it.connect(limit=1024)
        writer.write(b"go\n")
        await it.until(lambda: it.connections.bytes_from_brokers > 1_000_000)
        await it.settled(lambda: it.connections.bytes_from_brokers)
        await it.sweep(after_s=HOUR_S + 1)
        assert it.counts["idle_timed_out"] == 1
        assert len(it.connections) == 1
        await it.sweep(after_s=2 * HOUR_S + 2)
        await it.until(lambda: len(it.connections) == 0)
        writer.close()


@on_uvloop
async def test_clients_over_the_limit_are_closed_at_once() -> None:
    async with upstream() as port, lab(port, max_connections=1) as it:
        reader, writer = await it.connect()
        second_reader, second_writer = await it.connect()
        assert await end(second_reader) == b""
        assert it.counts["connections_refused"] == 1
        writer.write(b"first\n")
        assert await reader.readline() == b"first\n"
        for each in (writer, second_writer):
            each.close()


@on_uvloop
async def test_drain_finishes_a_held_request_and_accepts_nothing_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drains, "ANSWER_NS", HOUR_NS)
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        idle_reader, idle_writer = await it.connect()
        writer.write(b"hold 200\n")
        await it.until(lambda: it.connections.bytes_from_clients > 0)
        it.acceptor.close()
        draining = asyncio.ensure_future(it.connections.drain(LONG_S, quiet_s=0.05))
        await asyncio.sleep(0)  # it begins
        writer.write(b"too late\n")
        assert await end(idle_reader) == b""
        assert await end(reader) == b"hold 200\n"
        await draining
        assert len(it.connections) == 0
        for each in (writer, idle_writer):
            each.close()


@on_uvloop
async def test_drain_waits_for_a_pending_answer_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drains, "ANSWER_NS", HOUR_NS)

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        await asyncio.sleep(0.3)
        writer.write(line)
        await reader.read()

    async with upstream(slow) as port, lab(port) as it:
        reader, writer = await it.connect()
        writer.write(b"produce\n")
        await it.until(lambda: it.connections.bytes_from_clients > 0)
        draining = asyncio.ensure_future(it.connections.drain(LONG_S, quiet_s=0.05))
        assert await end(reader) == b"produce\n"
        writer.close()
        await draining


@on_uvloop
async def test_clients_that_arrive_as_all_are_closed_are_closed_too() -> None:
    for turns in range(12):  # of the loop, since it was accepted
        async with upstream() as port, lab(port) as it:
            client = socket.create_connection(it.acceptor.address)
            for _ in range(100):
                if len(it.connections):
                    break
                await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            await it.connections.abort()
            assert len(it.connections) == 0
            client.close()


@on_uvloop
async def test_drain_ends_at_its_deadline() -> None:
    async with upstream() as port, lab(port) as it:
        reader, writer = await it.connect()
        await it.say(writer, b"hold 3600000\n")
        began = monotonic()
        await it.connections.drain(0.2)
        assert monotonic() - began >= 0.2
        assert await end(reader) == b""
        writer.close()
