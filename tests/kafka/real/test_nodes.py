"""Brokers whose id does not fit into a port, or whose address is the gateway's, or is not a known one."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import create_topic, read_topic, send_with_aiokafka, send_with_confluent
from tests.kafka.real.support.gate import Gate
from tests.waiting import LONG_S

pytestmark = pytest.mark.usefixtures("kafka_libs")
_OWN = "it is a listener of this gateway itself"


def ports(gate: Gate) -> dict[int, int]:
    """The port of each node, as clients get it."""
    found = AdminClient({"bootstrap.servers": gate.bootstrap}).list_topics(timeout=LONG_S).brokers
    return {node.id: node.port for node in found.values()}


@pytest.mark.parametrize("node_id", [100_000, 2**31 - 1])
def test_a_node_of_any_id_is_served_at_one_port(node_id: int, tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "node", node_id=node_id) as broker:
        broker.start()
        with Gate(tmp_path / "gate", broker.bootstrap) as gate:
            assert ports(gate) == {node_id: gate.port + 1}
            create_topic(gate.bootstrap, "orders")
            note = f"node {node_id} is reached at port {gate.port + 1}"
            gate.eventually(lambda: note in gate.get("/readyz?verbose")[1], "readyz names the node")
            assert gate.output().count(note) == 1
            sent = [send_with_confluent(gate.bootstrap, "orders", 20, lane="librdkafka")]
            sent += [asyncio.run(send_with_aiokafka(gate.bootstrap, "orders", 20, lane="aiokafka"))]
            assert len(read_topic(gate.bootstrap, "orders")) == 40
            gate.stop()
            gate.start()
            gate.eventually(lambda: note in gate.output(), "the store has kept the port")
            assert ports(gate) == {node_id: gate.port + 1}
            assert len(read_topic(gate.bootstrap, "orders")) == 40


def test_clients_are_not_told_of_a_node_that_advertises_the_gateway(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "node")
    gate = Gate(tmp_path / "gate", broker.bootstrap)
    broker.properties = {"advertised.listeners": f"PLAIN://{gate.bootstrap}"}
    with broker:
        broker.start()
        with gate:
            with pytest.raises(KafkaException, match="Failed to get metadata"):  # it has no broker
                ports(gate)
            note = f"node 1 at {gate.bootstrap} is kept from clients: that is this gateway"
            gate.eventually(lambda: note in gate.get("/readyz?verbose")[1], "readyz names the loop")
            assert gate.output().count(note) == 1


def test_a_node_that_leads_to_the_gateway_under_another_name_is_not_connected_to(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "node")
    gate = Gate(tmp_path / "gate", broker.bootstrap)
    broker.properties = {"advertised.listeners": f"PLAIN://localhost:{gate.port}"}
    with broker:
        broker.start()
        with gate:
            (port,) = ports(gate).values()
            with socket.create_connection(("127.0.0.1", port), timeout=LONG_S) as client:
                client.sendall(b"\0\0\0\x14\0\x12\0\0\0\0\0\0\0\x0asluicegate")
                with suppress(ConnectionError):
                    assert client.recv(1) == b""
            reason = f"except localhost:{gate.port}: {_OWN}"
            gate.eventually(lambda: reason in gate.get("/readyz?verbose")[1], "readyz names the loop")
            assert f"cannot reach broker at localhost:{gate.port}: {_OWN}" in gate.output()


def test_clients_are_not_told_of_a_node_that_is_not_known(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "node") as broker:
        broker.start()
        known = {"known_brokers": ["kafka.example:9092"], "bootstrap": [f"localhost:{broker.ports.plain}"]}
        with Gate(tmp_path / "gate", broker.bootstrap, broker=known) as gate:
            with pytest.raises(KafkaException, match="Failed to get metadata"):  # it has no broker
                ports(gate)
            note = f"node 1 at {broker.bootstrap} is kept from clients: known_brokers does not name it"
            gate.eventually(lambda: note in gate.get("/readyz?verbose")[1], "readyz names the node")
            assert gate.output().count(note) == 1
