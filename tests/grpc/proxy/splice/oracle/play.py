"""A program of random steps, played by two peers on a wire.

The steps are numbers: each means something in any state, so that Hypothesis can leave any of them out.
"""

import random
from dataclasses import dataclass, field
from typing import Final

from h2.settings import SettingCodes
from tests.bench import SECOND
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.peers import Peer, Settled
from tests.grpc.proxy.splice.oracle.wire import Wire

from sluicegate.broker import BaseSession

_WINDOW: Final = SettingCodes.INITIAL_WINDOW_SIZE
_FRAME: Final = SettingCodes.MAX_FRAME_SIZE
_MAX_OPEN = 40
_NO_PRODUCER = 1_000
"""Ids above this are of producers that never publish."""
_SIZES = (0, 3, 90, 200, 5_000, 70_000)
_PUBLISHED = (gate.FREE, gate.SMALL, gate.SMALL, gate.SLOW)
_CONSUMED = (gate.FREE, gate.PACED, gate.DROPPING, gate.LATE)
_WINDOWS = (0, 1, 7, 1_000, 65_535, 200_000)
_SMALL_BYTES = 50_000


@dataclass
class Call:
    """One call, as its client made it and its server answered it."""

    stream: int
    path: str
    topic: str = ""
    request: bytes = b""
    """What the client has to send in all."""
    sent: int = 0
    is_ended: bool = False
    """The client has ended its side."""
    is_cancelled: bool = False
    response: bytes = b""
    """What the server has to send in all."""
    answered: int = 0
    has_headers: bool = False
    is_over: bool = False
    """The server has ended its side, or the call."""
    was_reset: bool = False
    """By the server."""
    must_fail: bool = False
    """The gate has to refuse it, if it gets to see its message."""


@dataclass
class Play:
    """Two h2 peers, a session between them, and the steps that they can take: the methods `do_...`.

    Every step takes numbers and means something in any state.

    :param seed: of the shapes of frames; 0 leaves h2's own.
    :param shrinks: True if windows of streams may get smaller; less is sent then than the connection's window
        takes. Where both happen, bytes that found no room there may come when the stream's window is already
        smaller: the gateway does not follow the windows of streams that no policy watches.
    """

    seed: int
    windows: tuple[int, int] = (65_535, 65_535)
    table: int = 4_096
    shrinks: bool = False
    session: BaseSession | None = None
    """What stands between them, if it is not the gate."""
    calls: dict[int, Call] = field(default_factory=dict)
    pings: int = 0

    def __post_init__(self) -> None:
        self.front = gate.shared()
        chance = random.Random(self.seed)
        windows = self.windows if self.shrinks else (65_535, 65_535)
        choose = chance.randrange if self.seed else lambda _: 1
        self.wire = Wire(self.session or gate.session(self.front), choose, windows, self.table)
        self.client, self.server = self.wire.client, self.wire.server
        self._left = _SMALL_BYTES if self.shrinks else 2**40
        self._windows = {True: 65_535, False: 65_535}

    def attach_all(self) -> None:
        """Begin with a producer and a consumer of each topic."""
        for each in range(len(_CONSUMED)):
            self.do_attach(each, each)
            self.do_subscribe(each, each)
        for _ in self.calls:
            self.do_send(0, 3 * 7)
        self.wire.settle()
        for _ in self.calls:
            self.do_answer(0, 3 * 4 * 7)
        self.wire.settle()

    def step(self, name: str, a: int, b: int) -> None:
        """Play one step of those in STEPS."""
        getattr(self, f"do_{name}")(a, b)

    def _size(self, number: int) -> int:
        size = _SIZES[number % len(_SIZES)]
        if size > self._left // 4:
            size = 0
        self._left -= size
        return size

    # -- the client ----------------------------------------------------------------------------------------

    def do_publish(self, a: int, b: int) -> None:
        topic, size = _PUBLISHED[a % len(_PUBLISHED)], self._size(b)
        producer = 1 + _PUBLISHED.index(topic)
        request = service.publish(topic, producer, bytes((a % 251,)) * size)
        call = self._open(service.PUBLISH, topic, request, a)
        if call is not None:
            call.must_fail = topic == gate.SMALL and size > gate.MAX_SIZE
            call.response = service.message((1, a))

    def do_other(self, a: int, b: int) -> None:
        request = b"".join(service.framed(bytes((each,)) * self._size(b)) for each in range(a % 3))
        call = self._open(service.OTHER, "", request, b)
        if call is not None:
            call.response = service.framed(bytes(self._size(a)))

    def do_attach(self, a: int, b: int) -> None:
        topic = _CONSUMED[a % len(_CONSUMED)]
        reliable = 0 if topic == gate.DROPPING else 1
        request = service.message((1, topic), (2, f"p{b % 5}"), (3, reliable))
        call = self._open(service.ATTACH, topic, request, b)
        if call is not None:
            call.response = service.message((1, _NO_PRODUCER + call.stream))

    def do_subscribe(self, a: int, b: int) -> None:
        topic = _CONSUMED[a % len(_CONSUMED)]
        request = service.message((1, topic), (2, f"c{b % 5}"), (3, "s"))
        call = self._open(service.SUBSCRIBE, topic, request, b)
        if call is not None:
            call.response = service.message((1, call.stream))

    def do_receive(self, a: int, b: int) -> None:
        known = [
            call
            for call in self.calls.values()
            if call.path == service.SUBSCRIBE and self.client.seen[call.stream].status == "0"
        ]
        if not known:
            return
        consumer = known[a % len(known)]
        call = self._open(service.RECEIVE, consumer.topic, service.message((1, consumer.stream)), b)
        if call is not None:
            sizes = [self._size((a + each) % 5) for each in range(b % 40)]
            call.response = b"".join(
                service.message((1, bytes((at % 251,)) * size), (2, at)) for at, size in enumerate(sizes)
            )

    def _open(self, path: str, topic: str, request: bytes, varied: int) -> Call | None:
        if sum(not self.is_closed(call) for call in self.calls.values()) >= _MAX_OPEN:
            return None
        stream = self.client.h2.get_next_available_stream_id()
        more = (("x-varied", f"v{varied % 3}"), ("authorization", "Bearer a-secret"))[: varied % 3]
        self.client.h2.send_headers(stream, service.request(path, *more))
        call = self.calls[stream] = Call(stream, path, topic, request)
        return call

    def do_send(self, a: int, b: int) -> None:
        """Some of a request, and the end of it if nothing is left and `b` says so."""
        call = self._chosen(a, [each for each in self.calls.values() if self.may_send(each)])
        if call is not None:
            self.send(call, b)

    def send(self, call: Call, b: int) -> None:
        """Some of a request."""
        window = max(0, self.client.window(call.stream))
        left = len(call.request) - call.sent
        count = min(left, b % 20_000 if b % 3 else left, window)
        padding = b % 9 if count and count + 10 <= window else 0
        ends = count == left and b % 5 != 0
        if count or ends:
            part = call.request[call.sent : call.sent + count]
            self.client.h2.send_data(call.stream, part, end_stream=ends, pad_length=padding or None)
        call.sent, call.is_ended = call.sent + count, ends

    def may_send(self, call: Call) -> bool:
        """The client has not ended its side."""
        return not call.is_ended and not call.is_cancelled and not self.is_closed(call)

    def do_cancel(self, a: int, _b: int) -> None:
        call = self._chosen(a, [each for each in self.calls.values() if not self.is_closed(each)])
        if call is not None and not call.is_cancelled:
            self.client.h2.reset_stream(call.stream, error_code=8)
            call.is_cancelled = True

    def is_closed(self, call: Call) -> bool:
        """For the client nothing more comes or goes."""
        seen = self.client.seen[call.stream]
        return call.is_cancelled or seen.reset is not None or (seen.is_ended and call.is_ended)

    # -- the server ----------------------------------------------------------------------------------------

    def do_answer(self, a: int, b: int) -> None:
        """Some of a response, and its end if nothing is left."""
        call = self._chosen(a, [each for each in self.calls.values() if self.may_answer(each)])
        if call is not None:
            self.answer(call, b)

    def may_answer(self, call: Call) -> bool:
        """The server has the call, and has not ended it."""
        seen = self.server.seen.get(call.stream)
        return seen is not None and bool(seen.headers) and seen.reset is None and not call.is_over

    def answer(self, call: Call, b: int) -> None:
        """Some of a response."""
        h2, stream = self.server.h2, call.stream
        if not self.server.seen[stream].is_ended and b % 4:
            return  # mostly it waits for the whole request
        if not call.has_headers and b % 11 == 0:
            h2.send_headers(stream, [*service.ANSWER, ("grpc-status", "5")], end_stream=True)
            call.is_over = True
            return
        if not call.has_headers:
            h2.send_headers(stream, service.ANSWER)
            call.has_headers = True
        left = len(call.response) - call.answered
        count = min(left, b % 20_000 if b % 3 else left, max(0, self.server.window(stream)))
        if count:
            padding = b % 9 if count + 10 <= self.server.window(stream) else 0
            part = call.response[call.answered : call.answered + count]
            h2.send_data(stream, part, pad_length=padding or None)
            call.answered += count
        if count == left:
            h2.send_headers(stream, service.OK, end_stream=True)
            call.is_over = True

    def do_reset(self, a: int, b: int) -> None:
        call = self._chosen(a, [each for each in self.calls.values() if self.may_answer(each)])
        if call is not None:
            self.server.h2.reset_stream(call.stream, error_code=b % 14)
            call.is_over = call.was_reset = True

    # -- both ----------------------------------------------------------------------------------------------

    def _peer(self, a: int) -> Peer:
        return self.client if a % 2 else self.server

    def do_window(self, a: int, b: int) -> None:
        """Open a window by some of what was taken of it."""
        peer = self._peer(a)
        if a % 3 == 0:
            peer.give_back(0, b)
        else:
            owing = [stream for stream in peer.seen if self.may_give_back(peer, stream)]
            if owing:
                peer.give_back(owing[b % len(owing)], b)

    def may_give_back(self, peer: Peer, stream: int) -> bool:
        """Bytes were taken of a stream that is still there."""
        call = self.calls.get(stream)
        if call is None or not peer.seen[stream].owed:
            return False
        return not (call.is_cancelled if peer is self.client else call.was_reset)

    def do_settings(self, a: int, b: int) -> None:
        frame_size = (16_384, 20_000, 65_536)[b % 3]
        peer, window = self._peer(a), _WINDOWS[b % len(_WINDOWS)]
        if not self.shrinks:
            window = max(window, self._windows[peer.is_client])
        self._windows[peer.is_client] = window
        value: Settled = {_FRAME: frame_size} if a % 3 == 0 else {_WINDOW: window}
        peer.change(value)

    def do_ping(self, a: int, _b: int) -> None:
        if a % 2:
            self.pings += 1
        self._peer(a).h2.ping(a.to_bytes(8))

    def do_prioritize(self, a: int, b: int) -> None:
        call = self._chosen(a, [each for each in self.calls.values() if not self.is_closed(each)])
        if call is not None:
            self.client.h2.prioritize(call.stream, weight=1 + b % 256)

    # -- the wire and the clock ----------------------------------------------------------------------------

    def do_move(self, a: int, b: int) -> None:
        pipe = self.wire.pipes[a % 4]
        self.wire.move(pipe, max(1, b % 300 if b % 2 else b))

    def do_settle(self, _a: int, _b: int) -> None:
        self.wire.settle()

    def do_wait(self, a: int, _b: int) -> None:
        self.wire.pass_time(a % 3_000 * SECOND // 1_000)

    @staticmethod
    def _chosen(number: int, among: list[Call]) -> Call | None:
        return among[number % len(among)] if among else None


STEPS: Final = tuple(sorted(name[3:] for name in vars(Play) if name.startswith("do_")))
