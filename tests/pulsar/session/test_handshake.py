"""Which broker a connection is for, and who its client is."""

import base64
import json
import tracemalloc

import pytest
from tests.pulsar.session.messages import connect, connected, frame, producer, producer_success, send
from tests.pulsar.session.wire import Bench, Wire

from sluicegate.broker import Dial
from sluicegate_pulsar.codec import pulsar_pb2 as pb


def token(**claims: object) -> bytes:
    parts = ({"alg": "HS256"}, claims)
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join([*encoded, b"signature"])


def dialled(wire: Wire) -> list[Dial]:
    return [command for command in wire.commands if isinstance(command, Dial)]


def test_a_client_that_names_no_broker_gets_the_broker_of_the_listener() -> None:
    wire = Wire(Bench(), is_open=False, bootstrap=["b:6650", "c:6650"])
    sent = connect()
    wire.client_sends(sent)
    assert dialled(wire) == [Dial((("b", 6650), ("c", 6650)))]
    assert wire.sent_up() == [sent]
    assert not wire.session.connection.client.is_proxied


def test_a_client_that_names_a_known_broker_gets_that_broker() -> None:
    wire = Wire(Bench(), is_open=False, known_brokers=["c:6650"])
    wire.client_sends(connect(proxy_to_broker_url="c:6650", auth_method_name="token", auth_data=b"secret"))
    assert dialled(wire) == [Dial((("c", 6650),))]
    [sent] = wire.forwarded()
    assert not sent.connect.HasField("proxy_to_broker_url")
    assert (sent.connect.auth_data, sent.connect.protocol_version) == (b"secret", 20)


@pytest.mark.parametrize("url", ["evil:6650", "b:22", "169.254.169.254:80", "::::", "b"])
def test_an_unknown_broker_is_never_dialled(url: str) -> None:
    wire = Wire(Bench(), is_open=False)
    wire.client_sends(connect(proxy_to_broker_url=url))
    assert dialled(wire) == []
    assert wire.sent_up() == []
    [error] = wire.answered()
    assert error.error.error == pb.SERVICE_NOT_READY
    assert url in error.error.message
    assert "known_brokers" in error.error.message
    assert wire.closed is not None
    assert wire.closed.counter == "unknown_broker"
    assert wire.shared.counters()["unknown_broker_refused"] == 1


@pytest.mark.parametrize(
    ("method", "data", "principal"),
    [
        ("token", token(sub="anna"), "anna"),
        ("token", token(sub="an\ud800na"), r"an\ud800na"),
        ("token", token(sub=""), "ANONYMOUS"),
        ("token", token(), "ANONYMOUS"),
        ("token", b"no token", "ANONYMOUS"),
        ("token", b"a.\xff.c", "ANONYMOUS"),
        ("token", b"a.W10.c", "ANONYMOUS"),
        ("token", b"a." + base64.b64encode(b"[" * 30_000) + b".c", "ANONYMOUS"),
        ("basic", b"bob:password", "bob"),
        ("basic", b"\xff", "ANONYMOUS"),
        ("tls", b"", "ANONYMOUS"),
        ("", b"", "ANONYMOUS"),
    ],
)
def test_the_principal_counts_once_the_broker_has_accepted_it(
    method: str, data: bytes, principal: str
) -> None:
    wire = Wire(Bench(), is_open=False)
    wire.client_sends(connect(auth_method_name=method, auth_data=data))
    assert wire.session.connection.client.principal == "ANONYMOUS"
    wire.broker_sends(frame("auth_challenge", server_version="Pulsar"))
    wire.client_sends(frame("auth_response", client_version="Pulsar-CPP"))
    assert wire.session.connection.client.principal == "ANONYMOUS"
    wire.broker_sends(connected())
    assert wire.session.connection.client.principal == principal
    assert len(wire.sent_up()) == len(wire.sent_down()) == 2


def test_an_exempt_principal_is_exempt_once_accepted() -> None:
    bench = Bench()
    bench.exempt = frozenset({"anna"})
    bench.set()
    wire = Wire(bench, is_open=False)
    wire.client_sends(connect(auth_method_name="token", auth_data=token(sub="anna")))
    assert not wire.session.connection.client.exempt
    wire.broker_sends(connected())
    assert wire.session.connection.client.exempt


def test_a_changed_exemption_applies_to_open_connections() -> None:
    bench = Bench(max_publish_rate=1)
    wire = Wire(bench, is_open=False)
    wire.client_sends(connect(auth_method_name="token", auth_data=token(sub="anna")))
    wire.broker_sends(connected())
    wire.client_sends(producer())
    wire.broker_sends(producer_success())
    wire.sent_up()

    wire.client_sends(send(0), send(1))
    assert len(wire.sent_up()) == 1
    bench.exempt = frozenset({"anna"})
    bench.set(max_publish_rate=1)
    wire.wait(1)
    assert len(wire.sent_up()) == 1
    wire.client_sends(*(send(number) for number in range(2, 7)))
    assert len(wire.sent_up()) == 5

    bench.exempt = frozenset()
    bench.set(max_publish_rate=1)
    wire.client_sends(*(send(number) for number in range(7, 12)))
    assert len(wire.sent_up()) <= 1


def test_bytes_after_connect_are_buffered_until_the_broker_is_connected() -> None:
    wire = Wire(Bench(), is_open=False)
    first, second = connect(), frame("auth_response", client_version="x")
    commands = wire.session.receive_client(first + second, wire.now)
    assert [type(command) for command in commands] == [Dial]
    assert wire.session.held_bytes == wire.shared.budget.used == len(first + second)
    assert wire.session.frame_began_ns == 0
    commands = wire.session.dialled(wire.now)
    assert b"".join(bytes(command.data) for command in commands) == first + second  # type: ignore[union-attr]
    assert wire.session.held_bytes == 0


def test_nothing_of_connect_is_kept_once_it_is_forwarded() -> None:
    wire = Wire(Bench(), is_open=False)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        wire.client_sends(connect(auth_data=bytes(500_000)))
        wire.broker_sends(connected())
        wire.sent_up()
        wire.forget()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000


def test_a_connect_that_the_budget_has_no_room_for_closes_its_client() -> None:
    bench = Bench()
    bench.budget.limit = 1_000
    wire = Wire(bench, is_open=False)
    wire.client_sends(connect(auth_data=bytes(2_000)))
    assert wire.closed is not None
    assert wire.closed.counter == "buffer_budget_used_up"
    wire.close()
    assert bench.budget.used == 0


@pytest.mark.parametrize(
    "frames", [[producer()], [frame("ping")], [frame("auth_response")], [connect(), connect()]]
)
def test_commands_out_of_order_close_their_client(frames: list[bytes]) -> None:
    wire = Wire(Bench(), is_open=False)
    for one in frames:
        wire.client_sends(one)
    assert wire.closed is not None
    assert wire.closed.counter == "malformed_frame"


def test_connecting_twice_closes_the_client() -> None:
    wire = Wire(Bench())
    wire.client_sends(connect())
    assert wire.closed is not None
    assert wire.sent_up() == []


def test_unsupported_features_are_not_announced() -> None:
    wire = Wire(Bench(), is_open=False)
    wire.client_sends(connect())
    flags = {"supports_scalable_topics": True, "supports_auth_refresh": True}
    wire.broker_sends(frame("connected", server_version="Pulsar 5", protocol_version=21, feature_flags=flags))
    [answer] = wire.answered()
    assert answer.connected.protocol_version == 21
    assert answer.connected.feature_flags.supports_auth_refresh
    assert not answer.connected.feature_flags.supports_scalable_topics


def test_a_closed_session_keeps_nothing() -> None:
    wire = Wire(Bench(), is_open=False)
    wire.client_sends(connect()[:7])
    assert wire.session.frame_began_ns
    wire.close()
    assert wire.session.held_bytes == 0
