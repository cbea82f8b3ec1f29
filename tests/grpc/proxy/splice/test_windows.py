"""Each step of flow control alone: credit, and the largest window."""

import pytest

from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import NoRoomError
from sluicegate_grpc.proxy.splice.flow import Credit, Flow, Outlet
from sluicegate_grpc.proxy.splice.frames import HEAD, MAX_WINDOW, ErrorCode, WireError

_STREAM = 7
_DEFAULT = 65_535


class Direction:
    """A flow of one stream, with what its sender was granted and its receiver got."""

    def __init__(self, budget: int = 0) -> None:
        self.granted: list[tuple[int, int]] = []
        self.sent: list[bytes] = []
        self.budget = Budget(budget)
        self.flow = Flow(
            self.budget, self.sent.append, lambda stream, size: self.granted.append((stream, size))
        )
        self.outlet = self.flow.open(_STREAM)

    @property
    def sizes(self) -> list[int]:
        """Bytes of each frame that was sent."""
        return [len(frame) - HEAD for frame in self.sent]


def test_the_connection_window_grows_up_to_the_maximum() -> None:
    flow = Direction().flow

    assert flow.updated(0, MAX_WINDOW - _DEFAULT) == MAX_WINDOW - _DEFAULT
    assert flow.window == MAX_WINDOW == 2**31 - 1
    with pytest.raises(WireError) as raised:
        flow.updated(0, 1)
    assert (raised.value.code, raised.value.counter) == (ErrorCode.FLOW_CONTROL_ERROR, "window_overflow")
    assert str(raised.value) == "window over 2^31-1"


def test_a_window_update_of_an_untracked_stream_passes_unchanged() -> None:
    flow = Direction().flow

    assert flow.updated(9, 100) == 100
    assert flow.window == _DEFAULT


def test_a_stream_tracked_late_has_the_largest_window() -> None:
    flow = Direction().flow

    outlet = flow.open_late(9)

    assert (outlet.stream, outlet.window) == (9, MAX_WINDOW)
    assert flow.outlets[9] is outlet


@pytest.mark.parametrize("over", [False, True])
def test_dropped_bytes_return_their_credit_to_the_sender(over: bool) -> None:
    direction = Direction(budget=1_000)
    flow, outlet = direction.flow, direction.outlet
    chunks = {
        Credit.NONE: flow.wait(b"1"),
        Credit.CONNECTION: flow.keep(outlet, b"22", 0, ahead=0),
        Credit.STREAM: flow.keep(outlet, b"333", 0, ahead=3),
    }
    assert [chunk.credit for chunk in chunks.values()] == list(chunks)
    granted = {}

    for credit, chunk in chunks.items():
        direction.granted.clear()
        if over:
            flow.discard(outlet, [chunk])
        else:
            flow.drop(outlet, chunk)
        granted[credit] = list(direction.granted)

    of_stream = not over
    assert granted == {
        Credit.NONE: [(0, 1), (_STREAM, 1)] if of_stream else [(0, 1)],
        Credit.CONNECTION: [(_STREAM, 2)] if of_stream else [],
        Credit.STREAM: [],
    }
    assert (flow.buffered_bytes, flow.uncredited, outlet.ahead, direction.budget.used) == (0, 0, 0, 0)


def test_unsent_bytes_of_an_ended_stream_return_their_connection_credit() -> None:
    direction = Direction()
    flow, outlet = direction.flow, direction.outlet
    chunk = flow.wait(b"12345")
    flow.window = 0
    flow.send(outlet, chunk, b"trailers")

    flow.close(outlet)

    assert direction.granted == [(0, 5)]
    assert (list(outlet.items), flow.outlets, flow.blocked) == ([], {}, {})


def test_a_stream_without_waiting_bytes_may_end_and_is_no_longer_tracked() -> None:
    direction = Direction()

    for _ in range(2):
        direction.flow.close(direction.outlet)

    assert direction.flow.outlets == {}


def test_withheld_bytes_are_granted_again_up_to_the_read_ahead() -> None:
    direction = Direction(budget=1_000)
    flow, outlet = direction.flow, direction.outlet

    first = flow.keep(outlet, b"12345", padding=2, ahead=8)
    second = flow.keep(outlet, b"678", padding=0, ahead=8)
    third = flow.keep(outlet, b"9", padding=0, ahead=8)

    assert [chunk.credit for chunk in (first, second, third)] == [
        Credit.STREAM,
        Credit.STREAM,
        Credit.CONNECTION,
    ]
    assert direction.granted == [(0, 2), (7, 2), (0, 5), (7, 5), (0, 3), (7, 3), (0, 1)]
    assert (flow.buffered_bytes, outlet.ahead, direction.budget.used) == (9, 8, 9)


def test_a_quarter_of_the_budget_is_reserved_for_partial_frames() -> None:
    direction = Direction(budget=100)

    assert direction.flow.keep(direction.outlet, bytes(75), 0, 0).credit is Credit.CONNECTION
    waiting = direction.flow.keep(direction.outlet, b"x", 0, 0)

    assert (waiting.credit, direction.flow.uncredited, direction.budget.used) == (Credit.NONE, 1, 75)
    assert direction.granted == [(0, 75)]


def test_the_sender_may_use_its_whole_window_and_the_credit() -> None:
    direction = Direction()
    flow = direction.flow
    flow.window, flow.debt = 3, 2

    flow.wait(b"12")
    flow.wait(b"345")
    with pytest.raises(WireError) as raised:
        flow.wait(b"6")

    assert (raised.value.code, raised.value.counter) == (ErrorCode.FLOW_CONTROL_ERROR, "window_exceeded")
    assert str(raised.value) == "more was sent than the windows allow"
    assert (flow.uncredited, flow.buffered_bytes) == (5, 5)


def test_credit_needed_early_is_granted_once() -> None:
    direction = Direction()
    flow, outlet = direction.flow, direction.outlet
    chunks = [flow.keep(outlet, payload, 0, ahead=0) for payload in (b"12", b"345")]
    direction.granted.clear()

    for _ in range(2):
        for chunk in chunks:
            flow.advance(outlet, chunk)

    assert [chunk.credit for chunk in chunks] == [Credit.STREAM] * 2
    assert outlet.ahead == 5
    assert direction.granted == [(_STREAM, 2), (_STREAM, 3)]


def test_bytes_of_the_gateway_need_window_but_no_credit() -> None:
    direction = Direction(budget=3)
    flow, outlet = direction.flow, direction.outlet

    chunks = [flow.own(outlet, payload) for payload in (b"1", b"23")]

    assert [chunk.credit for chunk in chunks] == [Credit.STREAM] * 2
    assert (flow.buffered_bytes, outlet.ahead) == (3, 3)
    assert direction.granted == []
    with pytest.raises(NoRoomError):
        flow.own(outlet, b"4")
    assert flow.buffered_bytes == 3


@pytest.mark.parametrize(
    ("connection", "stream", "size", "fits"),
    [(5, 5, 5, True), (4, 9, 5, False), (9, 4, 5, False), (0, 0, 0, True)],
)
def test_bytes_pass_if_both_windows_have_room(connection: int, stream: int, size: int, fits: bool) -> None:
    direction = Direction()
    direction.flow.window, direction.outlet.window = connection, stream

    assert direction.flow.fits(direction.outlet, size) is fits
    direction.flow.passed(direction.outlet, size)
    assert (direction.flow.window, direction.outlet.window) == (connection - size, stream - size)


def test_nothing_overtakes_waiting_bytes() -> None:
    direction = Direction()
    direction.outlet.items.append(b"trailers")

    assert not direction.flow.fits(direction.outlet, 1)


def blocked(direction: Direction, stream: int, size: int) -> Outlet:
    """A stream that waits for the connection's window."""
    outlet = direction.flow.open(stream)
    direction.flow.send(outlet, direction.flow.keep(outlet, bytes(size), 0, ahead=1_000))
    return outlet


def test_bytes_sent_on_credit_are_not_granted_again() -> None:
    direction = Direction()
    flow, outlet = direction.flow, direction.outlet
    flow.send(outlet, flow.keep(outlet, bytes(10), 0, ahead=4), flow.keep(outlet, bytes(4), 0, ahead=4))
    assert (flow.debt, outlet.debt) == (14, 4)

    assert [flow.updated(0, 10), flow.updated(0, 10)] == [0, 6]
    assert [flow.updated(_STREAM, 3), flow.updated(_STREAM, 3)] == [0, 2]
    assert (flow.debt, outlet.debt) == (0, 0)


def test_without_room_for_all_a_part_is_sent_and_the_trailers_wait() -> None:
    direction = Direction()
    flow, outlet = direction.flow, direction.outlet
    flow.window = 5
    outlet.ends = True
    flow.send(outlet, flow.keep(outlet, b"1234567", 0, ahead=9), b"trailers")
    assert (direction.sent[0][HEAD:], list(flow.blocked), flow.buffered_bytes) == (b"12345", [_STREAM], 2)

    flow.updated(0, 2)

    assert [frame[HEAD:] for frame in direction.sent[:2]] == [b"12345", b"67"]
    assert [frame[4] for frame in direction.sent[:2]] == [0, 0], "a flag that would end the stream"
    assert direction.sent[2:] == [b"trailers"]
    assert (flow.blocked, flow.outlets, flow.window, outlet.window) == ({}, {}, 0, _DEFAULT - 7)
    flow.send(outlet)
    assert len(direction.sent) == 3


def test_streams_that_wait_for_the_connection_window_take_turns() -> None:
    direction = Direction()
    direction.flow.window = 0
    for stream in (1, 3, 5):
        blocked(direction, stream, 2)

    direction.flow.updated(0, 3)

    assert direction.sizes == [2, 1]
    assert list(direction.flow.blocked) == [3, 5]


def test_a_stream_without_window_does_not_wait_for_the_connection_window() -> None:
    direction = Direction()
    flow = direction.flow
    flow.window = 0
    outlet = blocked(direction, 1, 2)
    assert list(flow.blocked) == [1]
    outlet.window = 1

    flow.updated(0, 5)

    assert (direction.sizes, flow.blocked) == ([1], {})
    assert flow.updated(1, 1) == 0
    assert direction.sizes == [1, 1]


def test_an_empty_message_needs_no_window() -> None:
    direction = Direction()
    flow, outlet = direction.flow, direction.outlet
    flow.window = outlet.window = 0

    flow.send(outlet, flow.own(outlet, b""), b"trailers")

    assert direction.sent == [b"trailers"]


def test_a_changed_initial_window_shifts_open_streams_by_the_difference() -> None:
    direction = Direction()
    flow, outlet = direction.flow, direction.outlet
    outlet.window = 10

    flow.initial_changed(_DEFAULT - 12)
    assert (outlet.window, flow.open(9).window) == (-2, _DEFAULT - 12)
    flow.initial_changed(_DEFAULT)
    assert outlet.window == 10
