"""Sessions between a client and a broker that the tests play; and stock clients, a gateway, and Mosquitto."""

import asyncio
import shutil
import socket
import subprocess

import pytest
from sluicegate_mqtt import MqttConfig, MqttDriver, packets
from sluicegate_mqtt.session import MOST_TOPICS, MqttClose

from sluicegate.api import EmbeddedGateway
from sluicegate.testing import ManualServices, SessionWire

CONFIG = MqttConfig.model_validate(
    {
        "name": "main",
        "system": "mqtt",
        "bootstrap": ["127.0.0.1:1"],
        "listen": {"port": 0},
        "exempt": {"principals": ["ops"]},
    }
)
MOSQUITTO = shutil.which("mosquitto", path="/usr/local/sbin:/usr/sbin:/usr/bin")
LONG_S = 120
"""Ends what hangs; no test depends on it."""


def text(value):
    return len(value).to_bytes(2, "big") + value.encode()


def packet(kind, flags, body):
    return bytes((kind << 4 | flags,)) + packets.variable(len(body)) + body


def connect(level=5, user="", will=False):
    flags = (0x80 if user else 0) | (0x04 if will else 0)
    empty = b"\0" if level == 5 else b""
    body = text("MQTT") + bytes((level, flags, 0, 60)) + empty + text("sensor")
    body += (empty + text("gone") + text("bye")) if will else b""
    return packet(1, 0, body + (text(user) if user else b""))


def connack(code=0, level=5):
    return packet(2, 0, bytes((0, code)) + (b"\0" if level == 5 else b""))


def publish(topic="plant/a", payload=b"x", qos=1, level=5, alias=0):
    properties = (
        b"\x26" + text("k") + text("v") + b"\x01\1" + (b"\x23" + alias.to_bytes(2, "big") if alias else b"")
    )
    body = text(topic) + (b"\0\7" if qos else b"")
    body += bytes((len(properties),)) + properties if level == 5 else b""
    return packet(3, qos << 1, body + payload)


def services_of(budget=0, **policies):
    """What one gateway offers."""
    return ManualServices(lambda topic: MqttDriver().name_of(topic, CONFIG), policies, budget=budget)


def connections(services, count=1):
    """Wires of clients of one gateway."""
    front = MqttDriver().front(CONFIG)
    asyncio.run(front.start(services))
    listener = services.listeners["bootstrap"]
    return [SessionWire(front.session(listener, f"127.0.0.1:{number}", 0)) for number in range(count)]


def clients(count=1, level=5, user="", **policies):
    """Wires of clients that have logged in."""
    wires = connections(services_of(**policies), count)
    for wire in wires:
        wire.client_sends(connect(level, user))
        wire.broker_sends(connack(level=level))
        wire.upstream = wire.downstream = b""
    return wires


@pytest.mark.parametrize("piece", [0, 1, 3])
@pytest.mark.parametrize("level", [4, 5])
def test_packets_pass_however_they_are_cut(level, piece):
    [wire] = clients(level=level)
    sent = publish(level=level) + publish(qos=0, level=level) + packet(12, 0, b"")
    wire.client_sends(sent, piece=piece)
    wire.broker_sends(packet(13, 0, b""), piece=piece)
    assert (wire.upstream, wire.downstream) == (sent, packet(13, 0, b""))


@pytest.mark.parametrize("level", [4, 5])
def test_what_is_published_before_the_login_is_answered_waits_for_it(level):
    [wire] = connections(services_of())
    wire.client_sends(connect(level, "ann", will=True) + publish(level=level))
    assert (wire.upstream, wire.is_paused) == (connect(level, "ann", will=True), True)
    assert (wire.session.is_logged_in, wire.session.principal) == (False, "ANONYMOUS")
    wire.broker_sends(connack(level=level), piece=1)
    assert wire.upstream.endswith(publish(level=level))
    assert (wire.session.is_logged_in, wire.session.principal, wire.is_paused) == (True, "ann", False)
    assert wire.session.client == "sensor@127.0.0.1:0"


@pytest.mark.parametrize(("qos", "kind"), [(1, 4), (2, 5)])
def test_mqtt_5_refuses_with_code_and_text(qos, kind):
    [wire] = clients(max_message_size=10)
    wire.client_sends(publish(payload=b"x" * 11, qos=qos), publish(payload=b"x" * 10, qos=qos))
    assert wire.downstream[0] >> 4 == kind
    assert b"\0\7\x83" in wire.downstream[:6]
    assert b"[sluicegate test-1]" in wire.downstream
    assert wire.upstream == publish(payload=b"x" * 10, qos=qos)


def test_before_mqtt_5_a_refused_message_closes_and_without_a_promise_it_is_dropped():
    [wire] = clients(level=4, max_message_size=10)
    wire.client_sends(publish(payload=b"x" * 11, qos=0, level=4))
    assert (wire.upstream, wire.downstream, wire.closed) == (b"", b"", None)
    wire.client_sends(publish(payload=b"x" * 11, level=4))
    assert wire.closed.counter is MqttClose.REFUSED


def test_above_the_rate_messages_wait_in_order_and_an_exempt_user_does_not():
    sent = [publish(payload=b"%d" % number) for number in range(4)]
    [wire] = clients(max_publish_rate="2/s")
    wire.client_sends(*sent)
    assert (wire.upstream, wire.is_paused) == (b"".join(sent[:2]), True)
    wire.wait(2)
    assert (wire.upstream, wire.is_paused, wire.session.held_bytes) == (b"".join(sent), False, 0)
    [wire] = clients(user="ops", max_publish_rate="2/s")
    wire.client_sends(*sent)
    assert wire.upstream == b"".join(sent)


def test_a_producer_that_leaves_makes_room_for_another():
    first, second = clients(2, max_producers_per_topic=1)
    first.client_sends(publish())
    second.client_sends(publish())
    assert b"\0\7\x97" in second.downstream[:6]
    first.close()
    second.client_sends(publish())
    assert second.upstream == publish()


def test_a_topic_is_known_by_its_alias():
    [wire] = clients(max_publish_rate="1/s")
    wire.client_sends(publish("plant/a", alias=3), publish("", alias=3), publish("plant/b"))
    assert wire.upstream == publish("plant/a", alias=3)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x30\xff\xff\xff\xff",
        packet(3, 2, b"\0\x09short"),
        publish("", alias=9),
        publish(""),
        b"\x30\xff\xff\xff\x7f",
        packet(3, 0, text("t") + b"\2\x77\0"),
        packet(3, 0, b"\0\2\xff\xfe\0"),
    ],
)
def test_what_is_no_message_closes(sent):
    [wire] = clients()
    wire.client_sends(sent)
    assert (wire.upstream, wire.closed.counter) == (b"", MqttClose.MALFORMED)


def test_memory_is_taken_for_what_is_kept_and_given_back():
    services = services_of(budget=1_000)
    [wire] = connections(services)
    wire.client_sends(connect())
    wire.broker_sends(connack())
    wire.upstream, budget = b"", services.budget
    whole = publish(payload=b"x" * 500)
    wire.client_sends(whole[:300])
    assert budget.used == 300
    wire.client_sends(whole[300:])
    assert (budget.used, wire.upstream) == (0, whole)
    wire.client_sends(publish(payload=b"x" * 2_000)[:900])
    assert wire.closed is None
    wire.client_sends(b"x" * 200)
    assert wire.closed.counter is MqttClose.NO_MEMORY
    wire.close()
    assert budget.used == 0


def test_topics_of_a_connection_are_bounded():
    [wire] = clients()
    wire.client_sends(*(publish(f"plant/{number}") for number in range(MOST_TOPICS + 1)))
    assert wire.closed.counter is MqttClose.TOO_MANY_TOPICS


@pytest.fixture
def mosquitto(tmp_path):
    """The port of a server of its own."""
    if MOSQUITTO is None or shutil.which("mosquitto_pub") is None:
        pytest.skip("no real broker: mosquitto and mosquitto-clients are not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = tmp_path / "mosquitto.conf"
    file.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n")
    with subprocess.Popen(
        [MOSQUITTO, "-c", file], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as server:
        while b" running" not in (line := server.stderr.readline()):
            assert line, "mosquitto has ended"
        yield port
        server.terminate()
        server.communicate()


async def run(*command):
    """Run a stock client; its exit code and what it printed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    printed, _ = await asyncio.wait_for(process.communicate(), LONG_S)
    return process.returncode, printed.decode()


@pytest.mark.parametrize("version", ["311", "5"])
def test_stock_clients_meet_the_policies_in_front_of_mosquitto(mosquitto, tmp_path, version):
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "brokers: [{name: main, system: mqtt, listen: {port: 0}, "
        f"bootstrap: ['127.0.0.1:{mosquitto}']}}]\n"
        f"state_dir: {tmp_path}/state\npolicies: {{broker: {{max_message_size: 100}}}}\n"
    )

    async def play():
        async with EmbeddedGateway.from_file(file) as gateway:
            host, port = gateway.address()
            common = ("-h", host, "-p", str(port), "-V", version, "-t", "plant/a", "-q", "1")
            kept = await run("mosquitto_pub", *common, "-r", "-m", "x" * 100)
            refused = await run("mosquitto_pub", *common, "-r", "-m", "x" * 101)
            seen = await run("mosquitto_sub", *common, "-C", "1")
        return kept, refused, seen

    kept, refused, seen = asyncio.run(play())
    assert kept == (0, "")
    assert seen == (0, "x" * 100 + "\n")
    if version == "5":
        assert "Publish 1 failed: Implementation specific error" in refused[1]
    else:
        assert refused[0] != 0, "the connection is closed"
