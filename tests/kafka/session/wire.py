"""A Kafka session between a client and a broker that are both played by kio, an independent codec.

What the broker answers is encoded by kio, and what the session sends is decoded by kio.
"""

from typing import Any

from tests.bench import SECOND, START, Bench
from tests.kafka.codec.entities import request_frame, response_frame

from sluicegate.broker import PauseReading
from sluicegate.testing import SessionWire
from sluicegate_kafka.cluster.nodes import Nodes
from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.session.session import KafkaSession
from sluicegate_kafka.session.shared.shared import Shared

__all__ = ["SECOND", "START", "Bench", "Wire", "request", "response", "split"]


class Wire(SessionWire[KafkaSession]):
    """A Kafka session, and both ends of it.

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
        entry = {
            "name": "k",
            "system": "kafka",
            "bootstrap": ["b:9092"],
            "listen": {"port": 19_000},
            "advertised_host": "gate",
            "node_port_base": 19_100,
        }
        config = KafkaConfig.model_validate(entry | options)
        self.nodes = Nodes(config)
        self.shared = shared or Shared(config, bench, self.nodes)
        super().__init__(KafkaSession(self.shared, peer, node, START))
        connection = self.session.connection
        connection.names_software(software)
        if software:
            connection.names_itself("app")
            self.shared.client_gaps.named(connection)
            connection.names_itself("")

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
