"""Carries bytes between one client and its broker, and executes the session's commands.

Rules of this file: it knows sockets, timers and back-pressure, but no broker, no frame and no policy.
Writes are never changed after they were handed to a transport.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic_ns
from typing import cast

from sluicegate.broker import (
    PASS,
    Ask,
    BaseSession,
    Buffer,
    Close,
    Command,
    Dial,
    Listener,
    NextTurn,
    PauseReading,
    ResumeReading,
    ToClient,
    ToUpstream,
    WakeAt,
)
from sluicegate.model import ANONYMOUS, CloseReason, ConnectionClose, ConnectionEvent
from sluicegate.net.limits import Limits
from sluicegate.net.relaying.deadlines import Deadlines, is_idle
from sluicegate.net.relaying.fair_reading import CHEAP_NS, UNTIMED_BYTES
from sluicegate.net.relaying.owner import Owner
from sluicegate.net.relaying.parting import discard, part
from sluicegate.net.relaying.read_control import (
    ASKING,
    DIALLING,
    KEPT_WHILE,
    SESSION,
    UNREAD,
    PausableReading,
)
from sluicegate.net.relaying.upstream_side import HIGH_WATER, LARGE_READ, LOW_WATER, UpstreamSide
from sluicegate.net.relaying.wake_up import WakeUp


class ClientSide(PausableReading):
    """The connection from a client, and all that is known about the pair.

    :param connections: what owns all connections of the broker.
    :param listener: where the client connected.
    :param peer: its address, `host:port`.
    :param descriptor: of its socket, to notice that it hung up while nothing is read from it.
    """

    __slots__ = (
        "_asks",
        "_deadlines",
        "_listener",
        "_sides",
        "_slices",
        "_to_upstream",
        "_upstream",
        "_wake_up",
        "address",
        "connections",
        "last_ns",
        "peer",
        "session",
        "to_client",
        "unanswered",
    )

    def __init__(
        self, connections: "Owner[ClientSide]", listener: Listener, peer: str, descriptor: int
    ) -> None:
        super().__init__(connections.turns, descriptor)
        self.connections = connections
        self.peer = peer
        self.address = peer.rpartition(":")[0]
        self.session: BaseSession | None = None
        """None until the broker is connected."""
        self.last_ns = monotonic_ns()
        """When bytes last came from either side, or held ones went on."""
        self.unanswered = False
        """True if the client was the last to send something: the broker may still answer."""
        self._listener = listener
        self._upstream: UpstreamSide | None = None
        # Senders to both sides, kept as bound methods because every message uses them.
        self._to_upstream: Callable[[Buffer], None] = discard
        self.to_client: Callable[[Buffer], None] = discard
        self._deadlines = Deadlines(self.last_ns)
        self._asks = self._slices = self._sides = 0
        self._wake_up: WakeUp | None = None

    @property
    def principal(self) -> str:
        """The principal that the broker has accepted; `ANONYMOUS` if there is none."""
        return self.session.principal if self.session is not None else ANONYMOUS

    @property
    def name(self) -> str:
        """Identifies this client in log lines."""
        return (self.session.client if self.session is not None else "") or self.peer

    # -- what the event loop calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is connected, including TLS if it is configured."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not instances of it
        self.to_client = self._transport.write
        self._sides += 1
        self._transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        self.connections.opened(self)

    def data_received(self, data: bytes) -> None:
        """Hand bytes from the client to the session."""
        session = self.session
        if session is None or (self._pauses and self._pauses & KEPT_WHILE):
            if session is None and self._pending is None and (listener := self._listener).upstream:
                self.connections.dial(self, listener.upstream, listener.name)
            self._keep(data)
            return
        count = len(data)
        if count > self._cheap_bytes:
            self._pace(data)
            return
        # <hot> As `_hand_on`, without the call.
        self.last_ns = now_ns = monotonic_ns()
        self.connections.bytes_from_clients += count
        try:
            commands = session.receive_client(data, now_ns)
            if commands:
                self.unanswered = True
                if commands is PASS:
                    self._to_upstream(data)
                    if count <= UNTIMED_BYTES:
                        return
                else:
                    self.carry_out(commands)
        except Exception as error:  # noqa: BLE001 - whatever a session raises ends its own client only
            self.failed(error)
        if (spent_ns := monotonic_ns() - now_ns) > CHEAP_NS:
            self._learn(count, spent_ns)
        if count >= LARGE_READ:
            self._handed_on(count)

    def _handed_on(self, count: int) -> None:
        self._go_on()
        if count >= LARGE_READ and self._upstream is not None and not self._pauses:
            self._upstream.splice_request()

    def _hand_on(self, data: bytes, now_ns: int) -> None:
        session = cast("BaseSession", self.session)
        self.last_ns = now_ns
        self.connections.bytes_from_clients += len(data)
        try:
            commands = session.receive_client(data, now_ns)
            if commands:
                self.unanswered = True
                if commands is PASS:
                    self._to_upstream(data)
                else:
                    self.carry_out(commands)
        except Exception as error:  # noqa: BLE001 - whatever a session raises ends its own client only
            self.failed(error)

    def pause_writing(self) -> None:
        """The client does not read: stop reading for it from the broker, and further requests from it."""
        if self._upstream is not None:
            self._upstream.pause(UNREAD)
        self.pause(UNREAD)
        self.connections.queued(self.unsent_bytes)

    def resume_writing(self) -> None:
        """The client reads again."""
        self.resume(UNREAD)
        if self._upstream is not None:
            self._upstream.resume(UNREAD)

    def eof_received(self) -> bool:
        """The client has closed its sending side; it can still read, unless this is TLS."""
        if self.closing_ns or self._transport is None:
            return False
        if not self._transport.can_write_eof():
            self._hand_on_all()
            return False
        if self.session is None and self._pending is None and self._listener.upstream:
            return False  # it never sent anything
        self._eof = True
        if self._wake_up is not None:
            self._wake()
        self._pass_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection from the client is closed."""
        self.close()
        self.side_lost()

    # -- what the upstream side and the connections call ------------------------------------------

    def dialled(self, upstream: UpstreamSide) -> None:
        """The broker is connected: begin, with what the client sent meanwhile."""
        self._sides += 1
        self._upstream = upstream
        if self.closing_ns:
            upstream.transport.abort()
            return
        self._to_upstream = upstream.transport.write
        upstream.client_transport = self._transport
        if self.session is None:
            self.begin()
            return
        self.resume(DIALLING)
        if upstream.stands_in:
            self.session.stands_in()
        self.turn(self.session.dialled, monotonic_ns())

    def undialled(self, reason: str) -> None:
        """No broker can be connected: the session tells its client if it can, else the client is closed."""
        if self.session is None:
            self.close(ConnectionClose.UPSTREAM_UNREACHABLE, reason)
        else:
            self.resume(DIALLING)
            self.turn(self.session.undialled, reason, monotonic_ns())

    def begin(self) -> None:
        """Begin the session, with what the client sent meanwhile."""
        if self.closing_ns:
            return
        self.last_ns = now_ns = monotonic_ns()
        try:
            self.session = self.connections.session(self._listener, self.peer, now_ns)
        except Exception as error:  # noqa: BLE001 - a front that raises ends this client only
            self.failed(error)
            return
        self.resume(DIALLING)
        self._go_on()

    def carry_out(self, commands: Sequence[Command]) -> None:
        """Execute commands of the session, in order."""
        if len(commands) == 1:  # the way of many messages
            if type(command := commands[0]) is ToUpstream:
                self._to_upstream(command.data)
                return
            if type(command) is ToClient:
                self.to_client(command.data)
                return
        self._carry_out_all(commands)
        self._go_on()

    def upstream_ended(self) -> None:
        """The broker closed: nothing more can come for this client."""
        if not (self.closing_ns or self._eof):  # else the client left first
            self.connections.count(ConnectionEvent.UPSTREAM_CLOSED)
        self.close()

    def side_lost(self) -> None:
        """One of the two connections is closed."""
        self._sides -= 1
        if self._sides == 0:
            self.connections.forget(self)

    def failed(self, error: Exception) -> None:
        """The session raised: end this client, and no other."""
        self.connections.session_failed(self, error)
        self.close()

    def close(self, counter: CloseReason | None = None, detail: str = "") -> None:
        """Send queued bytes, then close both sides; idempotent.

        :param counter: the reason in metrics and logs; None if it needs no mention.
        :param detail: more for the log.
        """
        if self.closing_ns:
            return
        now_ns = monotonic_ns()
        if counter:
            self.connections.closing(self, counter, detail, now_ns)
        self.closing_ns = now_ns
        # First: the session may send while it parts.
        self._to_upstream = self.to_client = discard
        self._cancel_wake()
        if self._upstream is not None:
            self._upstream.close(now_ns)
        if self._transport is not None:
            self._close_client(self._transport)
        if self.session is not None:
            failed = partial(self.connections.session_failed, self)
            part(self.session, now_ns, partial(self._turns.queue, self.user), failed)

    def abort(self) -> None:
        """Close both sides without sending queued bytes."""
        self.close()
        self.hang_up()
        if self._upstream is not None:
            self._upstream.hang_up()

    # -- once a second ----------------------------------------------------------------------------

    def sweep(self, now_ns: int, limits: Limits) -> int:
        """Apply the time-outs.

        :param now_ns: monotonic time.
        :param limits: the time-outs; 0 for never.
        :return: bytes that this connection keeps in memory.
        """
        if self.closing_ns:
            if now_ns - self.closing_ns > limits.linger_ns:
                self.abort()
            return self._queued()
        session, upstream, has_said = self.session, self._upstream, self._pending is not None
        is_paused = bool(self._pauses) and not (upstream is not None and upstream.waits_for_client)
        if missed := self._deadlines.missed(session, now_ns, limits, is_paused=is_paused, has_said=has_said):
            self.close(*missed)
        # Bytes that only wait for a turn proceed, even if the client has hung up.
        if self._pauses & SESSION or self._asks > self._slices or self._wake_up is not None:
            if self._is_client_gone():
                self._wake()
        else:
            moved_ns = 0 if upstream is None else upstream.moved_ns
            if is_idle(max(self.last_ns, moved_ns), now_ns, limits, is_half_closed=self._eof):
                self.close(ConnectionClose.IDLE_TIMED_OUT, "no bytes from either side")
        return self.kept_bytes

    @property
    def kept_bytes(self) -> int:
        """Bytes that this connection keeps in memory."""
        held_bytes = self.session.held_bytes if self.session is not None else 0
        return self._queued() + self._pending_bytes + held_bytes

    @property
    def at_rest(self) -> bool:
        """True if the client has no held, queued or unanswered bytes and no open question."""
        session = self.session
        return session is None or not (
            self._asks
            or (self._upstream is not None and self._upstream.moved_ns)
            or self._wake_up is not None
            or session.held_bytes
            or session.open_calls
            or self._queued()
        )

    def _queued(self) -> int:
        return self.unsent_bytes + (self._upstream.queued_bytes if self._upstream is not None else 0)

    # -- commands ---------------------------------------------------------------------------------

    def _carry_out_all(self, commands: Sequence[Command]) -> None:
        """Sort a batch by its two ends; each end gets its part in one system call."""
        up: list[Buffer] = []
        down: list[Buffer] = []
        ending: Close | None = None
        for command in commands:
            if type(command) is ToUpstream:
                up.append(command.data)
            elif type(command) is ToClient:
                down.append(command.data)
            elif isinstance(command, Close):
                ending = command
                break
            else:
                self._obey(command)
        if len(up) == 1:
            self._to_upstream(up[0])
        elif up and self._upstream is not None and self._to_upstream is not discard:
            self._upstream.transport.writelines(up)
        if len(down) == 1:
            self.to_client(down[0])
        elif down and self._transport is not None and self.to_client is not discard:
            self._transport.writelines(down)
        if ending is not None:
            self.close(ending.counter, ending.detail)

    def _obey(self, command: Command) -> None:
        """Execute a command that sends nothing."""
        if isinstance(command, WakeAt):
            self._cancel_wake()
            loop = self.connections.loop
            self._wake_up = None if self.closing_ns else WakeUp(loop, command.at_ns, self._wake)
        elif isinstance(command, PauseReading):
            self.pause(SESSION)
        elif isinstance(command, ResumeReading):
            self.resume(SESSION)
        elif isinstance(command, Ask):
            self._asks += 1
            self.pause(ASKING)
            if type(command.question) is NextTurn:
                self._slices += 1
                if self._upstream is not None:
                    self._upstream.pause(ASKING)
            self.connections.ask(self, command.question)
        elif isinstance(command, Dial):
            self.pause(DIALLING)
            self.connections.dial(self, command.addresses, in_order=command.in_order)
        else:
            raise TypeError(f"unexpected command: {command!r}")

    def answered(self, question: object, answer: object) -> None:
        """The front has answered, or failed: then `answer` is the exception."""
        self._asks -= 1
        self._slices -= type(question) is NextTurn
        if self.closing_ns or self.session is None:
            return
        if not self._asks:
            self.resume(ASKING)
            if self._upstream is not None:
                self._upstream.resume(ASKING)
        self.turn(self.session.answered, question, answer, monotonic_ns())

    def turn(self, call: Callable[..., Sequence[Command]], *arguments: object) -> None:
        """Call the session without bytes, and carry out its commands."""
        self.last_ns = monotonic_ns()
        self.unanswered = True
        try:
            self._carry_out_all(call(*arguments))
        except Exception as error:  # noqa: BLE001 - whatever a session raises ends its own client only
            self.failed(error)
        self._go_on()

    def _wake(self) -> None:
        self._cancel_wake()
        if self.closing_ns or self.session is None:
            return
        self.turn(self.session.wake, monotonic_ns(), self._eof or self._is_client_gone())

    def _cancel_wake(self) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None

    # -- bytes that came while they could not be used -----------------------------------------------

    def _go_on(self) -> None:
        """Process the bytes that were held back, if the last commands allow it."""
        while self.session is not None and (data := self._take_pending()) is not None:
            self.data_received(data)
        if self._eof:
            self._pass_eof()

    def _pass_eof(self) -> None:
        """Close the sending side towards the broker once no bytes of the client are held back."""
        held = self._pending or self._pauses & KEPT_WHILE or self._wake_up is not None
        if not self._eof or held or self.closing_ns or self._upstream is None:
            return
        self._to_upstream = discard
        if not self._upstream.write_eof():
            self.close()
