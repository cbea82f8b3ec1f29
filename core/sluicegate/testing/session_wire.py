"""A session between a client and a broker that tests play, for any broker room; no socket and no clock."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from sluicegate.broker import (
    PASS,
    Ask,
    BaseSession,
    Close,
    Command,
    Dial,
    NextTurn,
    PauseReading,
    ResumeReading,
    ToClient,
    ToUpstream,
    WakeAt,
)

S = TypeVar("S", bound=BaseSession)
_SECOND_NS = 1_000_000_000
_START_NS = 1_000 * _SECOND_NS


class SessionWire(Generic[S]):
    """One session, and both ends of it.

    It carries the session's commands out as a gateway does, but leaves time, turns and answers to the test:
    see `wait`, `take_turns` and `front_answers`. What a session does after a `Close` is not kept from it.

    :param session: what is tested, as its front makes it.
    :param now_ns: monotonic time to begin with, ns.
    """

    def __init__(self, session: S, now_ns: int = _START_NS) -> None:
        self.session = session
        self.now = now_ns
        """Monotonic time, ns."""
        self.upstream = b""
        """What the broker was sent; tests may take out what they have read."""
        self.downstream = b""
        """What the client was sent; tests may take out what they have read."""
        self.commands: list[Command] = []
        """All commands so far, without turns that were taken and wake-ups that have come."""
        self.is_paused = False
        """Whether the gateway does not read from the client, because the session asked for it."""

    # -- both ends ---------------------------------------------------------------------------------

    def client_sends(self, *frames: bytes, piece: int = 0) -> None:
        """Give the session bytes from the client.

        :param piece: bytes of each piece, as a network may cut them; 0 for all in one.
        :raises Exception: what the session raises, as in all methods.
        """
        for data in _pieces(frames, piece):
            commands = self.session.receive_client(data, self.now)
            self.carry_out([ToUpstream(data)] if commands is PASS else commands)

    def broker_sends(self, *frames: bytes, piece: int = 0) -> None:
        """Give the session bytes from the broker, as `client_sends` does."""
        for data in _pieces(frames, piece):
            commands = self.session.receive_upstream(data, self.now)
            self.carry_out([ToClient(data)] if commands is PASS else commands)

    def close(self) -> None:
        """Close both connections."""
        for _ in self.session.parting(self.now):
            pass

    # -- the gateway -------------------------------------------------------------------------------

    def carry_out(self, commands: Sequence[Command]) -> None:
        """Carry out commands, such as those of a method that the test called itself; a `Dial` succeeds."""
        for command in commands:
            self.commands.append(command)
            if isinstance(command, ToUpstream):
                self.upstream += bytes(command.data)
            elif isinstance(command, ToClient):
                self.downstream += bytes(command.data)
            elif isinstance(command, PauseReading | ResumeReading):
                self.is_paused = isinstance(command, PauseReading)
            elif isinstance(command, Dial):
                self.carry_out(self.session.dialled(self.now))

    def front_answers(self, question: object, answer: object = None) -> None:
        """Answer a question.

        :param question: one of `asked`.
        :param answer: what the front returns; an exception instance if it fails.
        """
        self.carry_out(self.session.answered(question, answer, self.now))

    def take_turn(self) -> bool:
        """Give the session one turn that it asked for by `NextTurn`; False if it asked for none."""
        for command in self.commands:
            if isinstance(command, Ask) and isinstance(command.question, NextTurn):
                self.commands.remove(command)
                self.front_answers(command.question)
                return True
        return False

    def take_turns(self) -> int:
        """Give the session turns until it asks for no more; how many it took."""
        taken = 0
        while self.take_turn():
            taken += 1
        return taken

    def wait(self, seconds: float, client_gone: bool = False) -> None:
        """Let time pass, in seconds, with the wake-ups that the session asked for.

        :param client_gone: what those tell the session of its client.
        """
        end = self.now + int(seconds * _SECOND_NS)
        while (at := self.wake_at) is not None and at <= end:
            self.wake(client_gone)
        self.now = end

    def wake(self, client_gone: bool = False) -> bool:
        """Let time pass until the next wake-up; False if the session asked for none."""
        at = self.wake_at
        if at is None:
            return False
        self.now = max(at, self.now)
        self.commands = [command for command in self.commands if not isinstance(command, WakeAt)]
        self.carry_out(self.session.wake(self.now, client_gone))
        return True

    def forget(self) -> None:
        """Forget what was sent, which a long run would otherwise look through again and again."""
        self.commands = [
            command for command in self.commands if not isinstance(command, ToUpstream | ToClient)
        ]

    # -- what the session wants --------------------------------------------------------------------

    @property
    def wake_at(self) -> int | None:
        """The monotonic time of the wake-up that it asked for, ns; None if there is none."""
        asked = [command.at_ns for command in self.commands if isinstance(command, WakeAt)]
        return asked[-1] if asked else None

    @property
    def closed(self) -> Close | None:
        """The first `Close`, if there was one."""
        return next((command for command in self.commands if isinstance(command, Close)), None)

    @property
    def asked(self) -> list[object]:
        """All questions so far, without turns that were taken."""
        return [command.question for command in self.commands if isinstance(command, Ask)]


def _pieces(frames: Sequence[bytes], size: int) -> list[bytes]:
    data = b"".join(frames)
    return [data[at : at + size] for at in range(0, len(data), size)] if size else [data]
