"""A Pulsar session between a client and a broker that tests play, frame by frame.

Nothing here is a mock of the gate: session, engine and built-in policies are the real ones.
"""

from collections.abc import Mapping, Sequence

from tests.bench import SECOND, START
from tests.bench import Bench as AnyBench
from tests.pulsar.session import messages

from sluicegate.broker import (
    PASS,
    Ask,
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
from sluicegate.model import PolicyValue
from sluicegate_pulsar.cluster.brokers import Brokers
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.session.session import PulsarSession
from sluicegate_pulsar.session.shared.shared import Shared

__all__ = ["SECOND", "START", "Bench", "Wire"]


class Bench(AnyBench):
    """Services whose policies know Pulsar's topic names."""

    def __init__(self, options: Mapping[str, PolicyValue] | None = None, /, **policies: PolicyValue) -> None:
        super().__init__(options, **policies)
        self.name_of = topic_name


def shared_of(bench: Bench, **options: object) -> Shared:
    """What the connections of one front share.

    :param options: of the broker's entry in the file.
    """
    entry = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 19_000}}
    config = PulsarConfig.model_validate(entry | options)
    brokers = Brokers(config, {})
    brokers.start()
    return Shared(config, bench, brokers)


class Wire:
    """One session, and both ends of it.

    :param bench: shared by all sessions of a test.
    :param shared: that of another wire, for a second connection to the same front.
    :param version: what the client calls itself.
    :param is_open: False for a client that has yet to say who it is.
    :param options: of the broker's entry in the file.
    """

    def __init__(
        self,
        bench: Bench,
        shared: Shared | None = None,
        peer: str = "10.0.0.1:5000",
        version: str = messages.PYTHON,
        is_open: bool = True,
        **options: object,
    ) -> None:
        self.shared = shared or shared_of(bench, **options)
        self.session = PulsarSession(self.shared, peer, self.shared.config.addresses)
        self.now = START
        self.upstream = b""
        self.downstream = b""
        self.commands: list[Command] = []
        self.is_paused = False
        """Whether the gate reads nothing from the client now."""
        if is_open:
            self.client_sends(messages.connect(version))
            self.broker_sends(messages.connected())
            self.sent_up()
            self.sent_down()

    def carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self.commands.append(command)
            if isinstance(command, ToUpstream):
                self.upstream += bytes(command.data)
            elif isinstance(command, ToClient):
                self.downstream += bytes(command.data)
            elif isinstance(command, Dial):
                self.carry_out(self.session.dialled(self.now))
            elif isinstance(command, PauseReading | ResumeReading):
                self.is_paused = isinstance(command, PauseReading)

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

    def take_turns(self) -> None:
        """Give the session turns until it asks for no more."""
        while self.take_turn():
            pass

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

    def close(self) -> None:
        """Both connections are gone."""
        self.session.closed(self.now)

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

    def sent_up(self) -> list[bytes]:
        """Frames that reached the broker since the last call."""
        found, self.upstream = messages.split(self.upstream)
        return found

    def sent_down(self) -> list[bytes]:
        """Frames that reached the client since the last call."""
        found, self.downstream = messages.split(self.downstream)
        return found

    def forwarded(self) -> list[pb.BaseCommand]:
        """Commands that reached the broker since the last call."""
        return [messages.parse(frame) for frame in self.sent_up()]

    def answered(self) -> list[pb.BaseCommand]:
        """Commands that reached the client since the last call."""
        return [messages.parse(frame) for frame in self.sent_down()]
