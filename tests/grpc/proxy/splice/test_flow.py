"""Windows of one direction: withheld bytes are credited at once, and never twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.engine.budget import Budget
from sluicegate_grpc.proxy.splice.flow import Chunk, Flow
from sluicegate_grpc.proxy.splice.frames import DATA, HEAD, WireError, read_head

_WINDOW = 65_535
_STEPS = st.lists(
    st.tuples(st.sampled_from(["pass", "keep", "send", "drop", "update", "shrink"]), st.integers(1, 20_000)),
    max_size=60,
)


class Ends:
    """A sender and a receiver that count for themselves."""

    def __init__(self, budget: int) -> None:
        self.flow = Flow(Budget(budget), self.arrived, self.granted)
        self.outlet = self.flow.open(1)
        self.sender = {0: _WINDOW, 1: _WINDOW}
        self.receiver = {0: _WINDOW, 1: _WINDOW}
        self.owed = {0: 0, 1: 0}
        self.kept: list[Chunk] = []
        self.got = 0

    def arrived(self, frame: bytes) -> None:
        _, _, kind, _, stream = read_head(frame)
        assert kind == DATA
        self.take(len(frame) - HEAD, stream)

    def take(self, size: int, stream: int = 1) -> None:
        """The receiver gets bytes; it has room for them."""
        for window in (0, stream):
            self.receiver[window] -= size
            self.owed[window] += size
            assert self.receiver[window] >= 0, "more than the receiver takes"
        self.got += size

    def granted(self, stream: int, amount: int) -> None:
        self.sender[stream] += amount

    def room(self, amount: int) -> int:
        """What the sender sends of `amount`."""
        size = max(0, min(amount, *self.sender.values()))
        for window in (0, 1):
            self.sender[window] -= size
        return size


@given(_STEPS, st.sampled_from([5_000, 1_000_000]))
def test_credit_never_exceeds_the_receivers_and_reaches_it_in_the_end(
    steps: list[tuple[str, int]], budget: int
) -> None:
    ends = Ends(budget)
    flow, sent, dropped = ends.flow, 0, 0
    for step, amount in [*steps, *[("send", 1)] * 60, *[("update", 2**30)] * 60]:
        if step == "pass":
            size = ends.room(amount)
            sent += size
            if flow.fits(ends.outlet, size) and not ends.kept:
                flow.passed(ends.outlet, size)
                ends.take(size)
            elif size:
                ends.kept.append(flow.wait(bytes(size)))
        elif step == "keep":
            size = ends.room(amount)
            sent += size
            ends.kept.append(flow.keep(ends.outlet, bytes(size), 0, 30_000))
        elif step == "send" and ends.kept:
            flow.send(ends.outlet, ends.kept.pop(0))
        elif step == "drop" and ends.kept:
            chunk = ends.kept.pop(0)
            dropped += len(chunk.payload)
            flow.drop(ends.outlet, chunk)
        elif step == "update":
            for stream in (0, 1):
                size = min(amount, ends.owed[stream])
                ends.owed[stream] -= size
                ends.receiver[stream] += size
                ends.sender[stream] += flow.updated(stream, size) if size else 0
        assert flow.window == ends.receiver[0]
        assert ends.outlet.window == ends.receiver[1]
    assert ends.got == sent - dropped
    assert flow.buffered_bytes == 0
    assert ends.sender == {0: _WINDOW, 1: _WINDOW}
    assert (flow.debt, ends.outlet.debt, ends.outlet.ahead) == (0, 0, 0)
    assert flow.own(ends.outlet, b"x").payload == b"x"


def test_an_ended_stream_returns_its_unused_credit() -> None:
    ends = Ends(1_000_000)
    flow = ends.flow
    flow.window = ends.receiver[0] = 10
    flow.send(ends.outlet, flow.keep(ends.outlet, bytes(ends.room(100)), 0, 0))
    assert (ends.got, flow.buffered_bytes, list(flow.blocked)) == (10, 90, [1])
    flow.close(ends.outlet)
    assert (flow.buffered_bytes, flow.blocked, flow.outlets) == (0, {}, {})


def test_a_changed_initial_window_applies_to_open_streams() -> None:
    ends = Ends(1_000_000)
    flow = ends.flow
    flow.initial_changed(0)
    ends.receiver[1] = 0
    flow.send(ends.outlet, flow.keep(ends.outlet, b"abc", 0, 0))
    assert ends.got == 0
    ends.receiver[1] = 2
    flow.initial_changed(2)
    assert ends.got == 2
    assert ends.outlet.window == 0


def test_a_connection_update_skips_streams_that_wait_for_their_own_window() -> None:
    """Or each of many small updates would look at every stream that waits."""
    sent: list[bytes] = []
    flow = Flow(Budget(0), sent.append, lambda stream, amount: None)
    flow.initial = 0
    waiting = [flow.open(2 * number + 1) for number in range(1_000)]
    for outlet in waiting:
        flow.send(outlet, flow.keep(outlet, b"abc", 0, 0))
    assert (sent, flow.blocked) == ([], {})
    flow.updated(0, 10_000)
    assert sent == []
    flow.window = 0
    flow.updated(5, 3)
    assert list(flow.blocked) == [5]
    for _ in range(3):
        flow.updated(0, 1)
    assert [len(frame) - HEAD for frame in sent] == [1, 1, 1]
    assert (flow.blocked, flow.buffered_bytes) == ({}, 999 * 3)
    flow.initial_changed(2)
    flow.updated(0, 2_000)
    assert flow.buffered_bytes == 999


def test_bytes_beyond_the_windows_are_not_buffered() -> None:
    flow = Flow(Budget(1), lambda frame: None, lambda stream, amount: None)
    flow.window = 10
    outlet = flow.open(1)
    flow.wait(b"12345")
    for keep in (flow.wait, lambda payload: flow.keep(outlet, payload, 0, 0)):
        with pytest.raises(WireError):
            keep(b"123456")
    assert (flow.buffered_bytes, flow.uncredited) == (5, 5)
