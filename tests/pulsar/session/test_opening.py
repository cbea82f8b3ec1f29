"""How a connection opens."""

from tests.pulsar.session.messages import connect, connected, parse, producer
from tests.pulsar.session.wire import Bench, Wire


def test_the_client_is_known_once_the_broker_accepts_it() -> None:
    wire = Wire(Bench(), is_open=False)
    wire.client_sends(connect("Pulsar-Java-v4.2.4"))
    wire.broker_sends(connected())
    assert wire.session.connection.client.is_ready
    assert wire.session.client == "Pulsar-Java-v4.2.4@10.0.0.1:5000"
    assert [command.connected.server_version for command in wire.answered()] == ["Pulsar Server"]


def test_nothing_is_sent_to_the_broker_before_connect() -> None:
    wire = Wire(Bench(), is_open=False)
    wire.client_sends(producer())
    assert wire.closed is not None
    assert wire.sent_up() == []


def test_unpoliced_commands_pass_unchanged() -> None:
    wire = Wire(Bench())
    asked = parse(producer())
    assert asked.producer.topic.endswith("orders")
    wire.client_sends(b"\x00\x00\x00\x09\x00\x00\x00\x05\x08\x12\x92\x01\x00")
    assert wire.sent_up() == [b"\x00\x00\x00\x09\x00\x00\x00\x05\x08\x12\x92\x01\x00"]
