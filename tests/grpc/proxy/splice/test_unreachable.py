"""The response to clients whose broker is unreachable, as h2 reads it."""

from collections.abc import Sequence

import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest
from tests.bench import SECOND, START
from tests.grpc.proxy.splice.talk import front

from sluicegate.broker import Close, Command, Dial, PauseReading, ToClient, WakeAt
from sluicegate.model import ConnectionClose, SessionClose
from sluicegate_grpc.proxy.splice import GrpcSession, Shared

BROKERS = (("10.0.0.9", 6650),)
REASON = "connection refused"
HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/t.Other/Anything"),
    (":authority", "gate"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
]


class Client:
    """A client of HTTP/2 that raises at any breach of the protocol, and its session.

    :param routes: whether its first request may name the broker.
    """

    def __init__(self, *, routes: bool = False) -> None:
        self.shared = front()
        self.shared.brokers.name = "broker main"
        if routes:
            self.shared.brokers.route = {"http://b:6650": BROKERS}.get
        self.session = GrpcSession(self.shared, "10.0.0.1:5000", BROKERS, routes=routes)
        self.wire = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.wire.initiate_connection()
        self.events: list[h2.events.Event] = []
        self.commands: list[Command] = []

    def send(self, piece: int = 0) -> None:
        """Hand over what the client has to say, in pieces of so many bytes."""
        data = self.wire.data_to_send()
        for at in range(0, len(data), piece or len(data) or 1):
            self.take(self.session.receive_client(data[at : at + (piece or len(data))], START))

    def take(self, commands: Sequence[Command]) -> None:
        """Carry commands out."""
        assert not self.ended, "a session that has ended says nothing more"
        for command in commands:
            if isinstance(command, ToClient):
                self.events += self.wire.receive_data(bytes(command.data))
            else:
                self.commands.append(command)

    def undialled(self) -> None:
        """The broker cannot be connected."""
        assert [command for command in self.commands if isinstance(command, Dial)] == [Dial(BROKERS)]
        self.commands.clear()
        self.take(self.session.undialled(REASON, START))

    def ask(self, end: bool = True) -> int:
        """A new request."""
        stream = self.wire.get_next_available_stream_id()
        self.wire.send_headers(stream, HEADERS)
        self.wire.send_data(stream, bytes(10), end_stream=end)
        return stream

    @property
    def ended(self) -> bool:
        """Whether the connection is to be closed."""
        return any(isinstance(command, Close) for command in self.commands)

    def answers(self) -> dict[int, dict[str, str]]:
        """Headers of the answers, by stream."""
        return {
            event.stream_id: {str(name): str(value) for name, value in event.headers}
            for event in self.events
            if isinstance(event, h2.events.ResponseReceived)
        }

    def assert_told(self, *streams: int) -> None:
        """These requests failed with UNAVAILABLE, and the connection came to its end."""
        answers = self.answers()
        assert set(answers) == set(streams)
        for answer in answers.values():
            assert answer[":status"] == "200"
            assert answer["grpc-status"] == "14"
            assert answer["grpc-message"] == "broker main cannot be reached: connection refused"
        (gone,) = (event for event in self.events if isinstance(event, h2.events.ConnectionTerminated))
        assert gone.error_code == h2.errors.ErrorCodes.NO_ERROR
        assert gone.last_stream_id == max(streams, default=0)
        pause, close = self.commands[-2:]
        assert isinstance(pause, PauseReading)  # so that the relay reads on, and nothing is lost to a reset
        assert close == Close(
            ConnectionClose.UPSTREAM_UNREACHABLE, "broker main cannot be reached: connection refused"
        )
        self.session.closed(START)
        assert self.shared.services.budget.used == 0
        assert self.session.held_bytes == 0


@pytest.mark.parametrize("piece", [0, 1, 7])
@pytest.mark.parametrize("end", [True, False])
def test_a_later_request_gets_unavailable(piece: int, end: bool) -> None:
    client = Client()
    client.send()
    client.undialled()
    assert not client.ended
    client.send()
    client.ask(end=end)
    data = client.wire.data_to_send()
    for at in range(0, len(data), piece or len(data)):
        if not client.ended:
            client.take(client.session.receive_client(data[at : at + (piece or len(data))], START))
    client.assert_told(1)


def test_earlier_requests_all_get_unavailable() -> None:
    client = Client()
    streams = [client.ask(), client.ask(), client.ask(end=False)]
    client.send()
    client.undialled()
    client.assert_told(*streams)


def test_the_request_that_chose_the_broker_gets_unavailable() -> None:
    client = Client(routes=True)
    client.send()
    stream = client.ask()
    client.send()
    client.undialled()
    client.assert_told(stream)
    settings = [event for event in client.events if isinstance(event, h2.events.RemoteSettingsChanged)]
    assert len(settings) == 1  # those that made the client ask


def test_a_client_without_requests_is_closed_after_a_while() -> None:
    client = Client()
    client.send()
    client.undialled()
    (wake,) = client.commands
    assert wake == WakeAt(START + 5 * SECOND)
    client.wire.ping(b"whoisit?")
    client.send()
    assert any(isinstance(event, h2.events.PingAckReceived) for event in client.events)
    client.take(client.session.wake(START + 5 * SECOND, client_gone=False))
    client.assert_told()


def test_a_client_that_hangs_up_is_forgotten() -> None:
    client = Client()
    client.send()
    client.undialled()
    assert client.session.wake(START + SECOND, client_gone=True) == [Close(SessionClose.CLIENT_GONE)]


def test_a_frame_that_is_too_large_ends_the_connection() -> None:
    client = Client()
    client.send()
    client.undialled()
    client.take(client.session.receive_client(b"\x01\x00\x01\x00\x00\x00\x00\x00\x01", START))
    assert client.ended
    (gone,) = (event for event in client.events if isinstance(event, h2.events.ConnectionTerminated))
    assert gone.error_code == h2.errors.ErrorCodes.FRAME_SIZE_ERROR


def test_a_connection_without_grpc_is_closed() -> None:
    shared: Shared = front()
    session = GrpcSession(shared, "10.0.0.1:5000")
    assert session.undialled(REASON, START) == [Close(ConnectionClose.UPSTREAM_UNREACHABLE, REASON)]
