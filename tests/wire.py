"""A session between a client and a broker that tests play, for all broker rooms.

Nothing here is a mock of the gate: session, engine and built-in policies are the real ones.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from tests.bench import SECOND, START

from sluicegate.broker import PASS, Ask, BaseSession, Close, Command, NextTurn, ToClient, ToUpstream, WakeAt

S = TypeVar("S", bound=BaseSession)


class SessionWire(Generic[S]):
    """One session, and both ends of it.

    :param session: what is tested.
    """

    def __init__(self, session: S) -> None:
        self.session = session
        self.now = START
        self.upstream = b""
        self.downstream = b""
        self.commands: list[Command] = []

    def carry_out(self, commands: Sequence[Command]) -> None:
        """Do what the session said."""
        for command in commands:
            self.commands.append(command)
            if isinstance(command, ToUpstream):
                self.upstream += bytes(command.data)
            elif isinstance(command, ToClient):
                self.downstream += bytes(command.data)

    def client_sends(self, *frames: bytes) -> None:
        """Bytes from the client, in one piece."""
        data = b"".join(frames)
        commands = self.session.receive_client(data, self.now)
        self.carry_out([ToUpstream(data)] if commands is PASS else commands)

    def broker_sends(self, *frames: bytes) -> None:
        """Bytes from the broker, in one piece."""
        data = b"".join(frames)
        commands = self.session.receive_upstream(data, self.now)
        self.carry_out([ToClient(data)] if commands is PASS else commands)

    def front_answers(self, question: object, answer: object = None) -> None:
        """The front knows what it was asked for."""
        self.carry_out(self.session.answered(question, answer, self.now))

    def take_turn(self) -> bool:
        """Give the session the turn that it asked for, as the gateway does; False if it asked for none."""
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
        """Let time pass, with the wake-ups that the session asked for."""
        end = self.now + int(seconds * SECOND)
        while (at := self.wake_at) is not None and at <= end:
            self.wake(client_gone)
        self.now = end

    def wake(self, client_gone: bool = False) -> bool:
        """Wake the session when it asked for it; False if it did not."""
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

    @property
    def wake_at(self) -> int | None:
        """The wake-up that is asked for."""
        asked = [command.at_ns for command in self.commands if isinstance(command, WakeAt)]
        return asked[-1] if asked else None

    @property
    def closed(self) -> Close | None:
        """The Close command, if there was one."""
        return next((command for command in self.commands if isinstance(command, Close)), None)

    @property
    def asked(self) -> list[object]:
        """Questions to the front."""
        return [command.question for command in self.commands if isinstance(command, Ask)]
