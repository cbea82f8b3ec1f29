"""A session between two h2 peers: every byte goes through it, cut anywhere, under a clock that tests turn."""

from collections import deque
from collections.abc import Sequence

from tests.bench import START
from tests.grpc.proxy.splice.oracle.peers import Peer
from tests.grpc.proxy.splice.oracle.reshape import Choose

from sluicegate.broker import (
    PASS,
    Ask,
    BaseSession,
    Buffer,
    Close,
    Command,
    NextTurn,
    PassOn,
    PauseReading,
    ResumeReading,
    ToClient,
    ToUpstream,
    WakeAt,
)


class Pipe:
    """Bytes under way in one direction. What was put in must not change before it is taken out."""

    def __init__(self) -> None:
        self._parts: deque[tuple[Buffer, bytes]] = deque()
        self.size = 0

    def put(self, data: Buffer) -> None:
        """Send bytes."""
        self._parts.append((data, bytes(data)))
        self.size += len(data)

    def take(self, count: int) -> bytes:
        """The next `count` bytes, or as many as there are."""
        out = bytearray()
        while self._parts and len(out) < count:
            given, copy = self._parts.popleft()
            assert bytes(given)[-len(copy) :] == copy, "bytes changed after they were handed over"
            wanted = count - len(out)
            out += copy[:wanted]
            if len(copy) > wanted:
                self._parts.appendleft((copy[wanted:], copy[wanted:]))
        self.size -= len(out)
        return bytes(out)


class Wire:
    """A client and a server with a session between them.

    :param choose: for the shapes of what both send.
    :param windows: of the streams, at the client and at the server.
    :param table: of the client's decoder.
    """

    def __init__(
        self,
        session: BaseSession,
        choose: Choose = lambda _: 1,
        windows: tuple[int, int] = (65_535, 65_535),
        table: int = 4_096,
    ) -> None:
        self.session = session
        self.now = START
        self.client = Peer(True, windows[0], choose, table)
        self.server = Peer(False, windows[1], choose)
        self.to_gate, self.to_server = Pipe(), Pipe()
        self.from_server, self.to_client = Pipe(), Pipe()
        self.wake_at: int | None = None
        self.is_paused = False
        self.closed: Close | None = None
        self.turns: list[NextTurn] = []
        """Turns that the session asks for."""
        self.asked: list[object] = []
        """Other questions that the front has not answered."""
        self.most_held = 0
        """The most bytes that the session ever held."""

    def collect(self) -> None:
        """Put on the wire what both ends have to say."""
        for peer, pipe in ((self.client, self.to_gate), (self.server, self.from_server)):
            out = peer.take_output()
            if out:
                pipe.put(out)

    def move(self, pipe: Pipe, count: int) -> None:
        """Have some bytes of one pipe arrive."""
        self.collect()
        if self.closed is not None or not pipe.size or (pipe is self.to_gate and self.is_paused):
            return
        data = pipe.take(count)
        if pipe is self.to_gate:
            self._obey(self.session.receive_client(data, self.now), data, self.to_server)
        elif pipe is self.from_server:
            self._obey(self.session.receive_upstream(data, self.now), data, self.to_client)
        elif pipe is self.to_server:
            self.server.receive(data)
        else:
            self.client.receive(data)
        self.collect()

    @property
    def pipes(self) -> tuple[Pipe, Pipe, Pipe, Pipe]:
        """All four, in the order of a request and its answer."""
        return self.to_gate, self.to_server, self.from_server, self.to_client

    def settle(self) -> None:
        """Have everything arrive, and what is due done; the clock stands still."""
        self.collect()
        while (
            self.turns
            or self._is_due
            or any(pipe.size and not (pipe is self.to_gate and self.is_paused) for pipe in self.pipes)
        ):
            if self.closed is not None:
                self._drain()
                return
            self.take_turn()
            self.pass_time(0)
            for pipe in self.pipes:
                self.move(pipe, pipe.size)

    @property
    def _is_due(self) -> bool:
        return self.wake_at is not None and self.wake_at <= self.now

    def take_turn(self) -> bool:
        """Give the session a turn that it asked for; False if it asked for none."""
        if not self.turns:
            return False
        self.carry_out(self.session.answered(self.turns.pop(0), None, self.now))
        return True

    def front_answers(self, answer: object = None) -> None:
        """The front answers the oldest question."""
        self.carry_out(self.session.answered(self.asked.pop(0), answer, self.now))

    def pass_time(self, ns: int) -> None:
        """Turn the clock, and wake the session at each moment that it asked for until then."""
        end = self.now + ns
        while self.wake_at is not None and self.wake_at <= end:
            self.now, self.wake_at = max(self.now, self.wake_at), None
            self._obey(self.session.wake(self.now, client_gone=False), b"", self.to_server)
        self.now = end

    def hang_up(self) -> None:
        """Both connections are gone."""
        self.session.closed(self.now)

    def _drain(self) -> None:
        self.server.receive(self.to_server.take(self.to_server.size))
        self.client.receive(self.to_client.take(self.to_client.size))
        self.to_gate.take(self.to_gate.size)
        self.from_server.take(self.from_server.size)

    def carry_out(self, commands: Sequence[Command]) -> None:
        """Do what the session says of itself."""
        self._obey(commands, b"", self.to_client)

    def _obey(self, commands: Sequence[Command], data: bytes, onward: Pipe) -> None:
        for command in commands:
            match command:
                case PassOn():
                    assert commands is PASS
                    onward.put(data)
                case ToUpstream():
                    self.to_server.put(command.data)
                case ToClient():
                    self.to_client.put(command.data)
                case PauseReading() | ResumeReading():
                    self.is_paused = isinstance(command, PauseReading)
                case WakeAt():
                    self.wake_at = command.at_ns
                case Ask(NextTurn() as question):
                    self.turns.append(question)
                case Ask():
                    self.asked.append(command.question)
                case Close():
                    self.closed = command
                case _:
                    raise AssertionError(f"unexpected command {command!r}")
        self.most_held = max(self.most_held, self.session.held_bytes)
