import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.broker import PASS, Command, ToClient, ToUpstream
from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import NoRoomError
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_frame
from sluicegate_pulsar.session.requests.handling import TAKEN, Handled
from sluicegate_pulsar.session.requests.reading_stops import Reading
from sluicegate_pulsar.session.requests.stream import SEND_WORK, Bounds, Stream

PING = command_frame(pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.Ping()))
LOOKUP = command_frame(
    pb.BaseCommand(type=pb.BaseCommand.LOOKUP, lookup=pb.Lookup(topic="orders", request_id=300))
)
FLOW = command_frame(
    pb.BaseCommand(type=pb.BaseCommand.FLOW, flow=pb.Flow(consumer_id=1, message_permits=1000))
)


def stream(
    pending: list[Command] | None = None, budget: Budget | None = None, reading: Reading | None = None
) -> Stream:
    budget, reading = budget or Budget(10_000), reading or Reading()
    bounds = Bounds(1_000, 1_000, checks_lists=False, work=SEND_WORK)
    return Stream(budget, bounds, pending if pending is not None else [], ToUpstream, reading, reading.stop)


def sent(out: list[Command]) -> bytes:
    assert all(isinstance(command, ToUpstream) for command in out)
    return b"".join(bytes(command.data) for command in out if isinstance(command, ToUpstream | ToClient))


@given(st.lists(st.sampled_from([PING, LOOKUP, FLOW]), max_size=8), st.data())
def test_frames_pass_and_are_replaced_alike_however_they_arrive(
    frames: list[bytes], data: st.DataObject
) -> None:
    pending: list[Command] = []
    seen: list[bytes] = []

    def replace(buffer: bytes, start: int, stop: int, now_ns: int) -> Handled:
        seen.append(buffer[start:stop])
        pending.append(ToUpstream(b"<before>"))
        return (ToUpstream(b"<replaced>"),)

    def look(buffer: bytes, start: int, stop: int, now_ns: int) -> Handled:
        seen.append(buffer[start:stop])
        return PASS

    it = stream(pending)
    it.handle({pb.BaseCommand.LOOKUP: replace, pb.BaseCommand.FLOW: look})
    whole = b"".join(frames)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    out: list[Command] = []
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        it.walk(whole[begin:end], 0, out)
    assert sent(out) == b"".join(b"<before><replaced>" if frame == LOOKUP else frame for frame in frames)
    assert seen == [frame for frame in frames if frame != PING]
    assert it.held_bytes == 0


def test_an_unpoliced_run_is_forwarded_without_a_copy() -> None:
    out: list[Command] = []
    data = PING * 5
    stream().walk(data, 0, out)
    assert len(out) == 1
    assert isinstance(out[0], ToUpstream)
    assert out[0].data is data


def test_frames_behind_a_stop_wait_until_it_ends() -> None:
    reading = Reading()
    it = stream(reading=reading)

    def stop(buffer: bytes, start: int, stop_: int, now_ns: int) -> Handled:
        reading.stop()
        return TAKEN

    it.handle({pb.BaseCommand.LOOKUP: stop})
    out: list[Command] = []
    it.walk(PING + LOOKUP + PING, 0, out)
    it.walk(FLOW, 0, out)
    assert sent(out) == PING
    assert it.held_bytes == len(PING + FLOW)
    assert it.has_frames
    reading.resume()
    it.walk(b"", 0, out)
    assert sent(out) == PING + PING + FLOW
    assert it.held_bytes == 0


def test_a_small_frame_that_arrives_during_a_stop_does_not_wait_for_the_size_of_an_earlier_one() -> None:
    reading = Reading()
    it = stream(reading=reading)

    def stop(buffer: bytes, start: int, stop_: int, now_ns: int) -> Handled:
        reading.stop()
        return PASS

    it.handle({pb.BaseCommand.FLOW: stop})
    out: list[Command] = []
    it.walk(LOOKUP[:-1], 0, out)
    it.walk(LOOKUP[-1:] + FLOW, 0, out)
    it.walk(PING, 0, out)
    assert sent(out) == LOOKUP + FLOW
    reading.resume()
    assert it.has_frames
    it.walk(b"", 0, out)
    assert sent(out) == LOOKUP + FLOW + PING


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00\x00\x00" + b"x" * 10, "frame of 0 bytes"),
        (b"\x00\x00\x00\x05" + b"x" * 10, "frame of 5 bytes"),
        (b"\x7f\xff\xff\xff" + b"x" * 10, "frame of 2147483647 bytes"),
        (b"\x00\x00\x03\xe9" + b"x" * 10, "frame of 1001 bytes"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS hello"),
        (b"GET /admin/v2/clusters HTTP/1.1\r\n", "HTTP request"),
    ],
)
def test_malformed_frames_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        stream().walk(data, 0, [])


def test_held_bytes_are_bounded_by_the_budget_and_released() -> None:
    budget = Budget(100)
    it = stream(budget=budget)
    it.walk(b"\x00\x00\x01\x00" + b"x" * 50, 0, [])
    with pytest.raises(NoRoomError):
        it.walk(b"x" * 60, 0, [])
    it.drop()
    assert budget.take(100)
