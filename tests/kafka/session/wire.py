"""A Kafka session between a client and a broker that are both played by kio, the outside oracle.

Nothing here is a mock of the gate: session, engine and built-in policies are the real ones. What the broker
answers is encoded by kio, and what the session sends is decoded by kio.
"""

from collections.abc import Sequence
from typing import Any

from tests.bench import SECOND, START, Bench
from tests.kafka.codec.entities import request_frame, response_frame

from sluicegate.broker import PASS, Ask, Close, Command, NextTurn, PauseReading, ToClient, ToUpstream, WakeAt
from sluicegate_kafka.cluster.nodes import Nodes
from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.session.session import KafkaSession
from sluicegate_kafka.session.shared.shared import Shared

__all__ = ["SECOND", "START", "Bench", "Wire", "request", "response", "split"]


class Wire:
    """One session, and both ends of it.

    :param bench: shared by all sessions of a test.
    :param shared: that of another wire, for a second connection to the same front.
    :param software: what the client calls itself in its ApiVersions request.
    :param node: name of the listener that the client came to.
    :param options: further options of the broker's entry in the file.
    """

    def __init__(
        self,
        bench: Bench,
        shared: Shared | None = None,
        peer: str = "10.0.0.1:5000",
        software: str = "apache-kafka-java",
        node: str = "node-1",
        **options: object,
    ) -> None:
        entry = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}
        config = KafkaConfig.model_validate(entry | options)
        self.nodes = Nodes("gate", "127.0.0.1", 19_100)
        self.shared = shared or Shared(config, bench, self.nodes)
        self.session = KafkaSession(self.shared, peer, node, START)
        self.session.connection.software = software
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

    def client_sends(self, data: bytes) -> None:
        """Bytes from the client."""
        commands = self.session.receive_client(data, self.now)
        self.carry_out([ToUpstream(data)] if commands is PASS else commands)

    def broker_sends(self, data: bytes) -> None:
        """Bytes from the broker."""
        commands = self.session.receive_upstream(data, self.now)
        self.carry_out([ToClient(data)] if commands is PASS else commands)

    def wait(self, seconds: float, client_gone: bool = False) -> None:
        """Let time pass, with the wake-ups that the session asked for."""
        end = self.now + int(seconds * SECOND)
        while (at := self.wake_at) is not None and at <= end:
            self.now = max(at, self.now)
            self.commands = [command for command in self.commands if not isinstance(command, WakeAt)]
            self.carry_out(self.session.wake(self.now, client_gone))
        self.now = end

    def take_turn(self) -> bool:
        """Give the session the turn that it asked for, as the gateway does; False if it asked for none."""
        for command in self.commands:
            if isinstance(command, Ask) and isinstance(command.question, NextTurn):
                self.commands.remove(command)
                self.carry_out(self.session.answered(command.question, None, self.now))
                return True
        return False

    def take_turns(self) -> int:
        """Give the session turns until it asks for no more; how many it took."""
        taken = 0
        while self.take_turn():
            taken += 1
        return taken

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

    @property
    def paused(self) -> bool:
        """Whether reading was paused at any time."""
        return any(isinstance(command, PauseReading) for command in self.commands)

    def forwarded(self) -> list[bytes]:
        """Requests that reached the broker since the last call, without their lengths."""
        found, self.upstream = split(self.upstream)
        return found

    def answered(self) -> list[bytes]:
        """Responses that reached the client since the last call, without their lengths."""
        found, self.downstream = split(self.downstream)
        return found


def split(stream: bytes) -> tuple[list[bytes], bytes]:
    """Cut a stream into its whole frames and the rest."""
    frames = []
    while len(stream) >= 4 and len(stream) >= 4 + int.from_bytes(stream[:4], "big"):
        length = int.from_bytes(stream[:4], "big")
        frames.append(stream[4 : 4 + length])
        stream = stream[4 + length :]
    return frames, stream


def request(entity: Any, correlation_id: int = 1, client_id: str = "app") -> bytes:
    """A whole request, with header and length."""
    return with_length([request_frame(entity, correlation_id, client_id)])


def response(entity: Any, correlation_id: int = 1) -> bytes:
    """A whole response, with header and length."""
    return with_length([response_frame(entity, correlation_id)])
