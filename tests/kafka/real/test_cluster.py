"""Three nodes behind one gate: addresses, ports, leaders that move, nodes that come and go."""

import datetime
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode
from tests.kafka.codec.entities import api_versions_5
from tests.kafka.real.support.broker import KafkaCluster, wait_for_nodes
from tests.kafka.real.support.clients import create_topic, read_topic, send_with_aiokafka, send_with_confluent
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.java import consume_with_java, produce_with_java, run_java_tool
from tests.kafka.real.support.raw import RawClient, call
from tests.kafka.real.support.steady import SteadyProducer
from tests.kafka.session.messages import batch
from tests.real.ports import free_ports
from tests.waiting import LONG_S, until

from sluicegate_kafka.codec.primitives import with_length

_NODES = (1, 2, 3)
_POLICIES = {
    "topics": [
        {"name": "single", "max_producers_per_topic": 1},
        # Not to be reached; but to know that, the gateway asks the nodes for all groups.
        *({"name": name, "max_subscriptions_per_topic": 5} for name in ("stays", "moves")),
    ]
}


@pytest.fixture(scope="module")
def gate(kafka_cluster: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """In front of all three nodes."""
    with Gate(tmp_path_factory.mktemp("gate"), kafka_cluster.bootstrap, _POLICIES) as gate:
        yield gate


def node_port(gate: Gate, node_id: int) -> int:
    """Where clients reach a node through the gateway."""
    return gate.port + 1 + node_id


def expected(gate: Gate) -> dict[int, tuple[str, int]]:
    """What every answer must say."""
    return {node_id: ("127.0.0.1", node_port(gate, node_id)) for node_id in _NODES}


def addresses(gate: Gate) -> dict[int, tuple[str, int]]:
    """What Metadata says."""
    admin = AdminClient({"bootstrap.servers": gate.bootstrap})
    seen: Any = admin.list_topics(timeout=LONG_S).brokers.values()
    return {node.id: (node.host, node.port) for node in seen}


def test_three_nodes_share_a_topic(kafka_cluster: KafkaCluster) -> None:
    create_topic(kafka_cluster.bootstrap, "spread", partitions=6, copies=3)
    logs = [send_with_confluent(kafka_cluster.bootstrap, "spread", 50, lane=f"lane{n}") for n in range(8)]
    stored = read_topic(kafka_cluster.bootstrap, "spread")
    judge(logs[0].merged(*logs[1:]), stored).assert_clean()
    assert len(stored) == 400
    assert len({one.partition for one in stored}) > 1


# -- addresses ----------------------------------------------------------------------------------------


def test_every_response_with_addresses_names_the_gateway(gate: Gate, kafka_cluster: KafkaCluster) -> None:
    create_topic(kafka_cluster.bootstrap, "addressed", partitions=6)
    assert addresses(gate) == expected(gate)
    admin = AdminClient({"bootstrap.servers": gate.bootstrap})
    described: Any = admin.describe_cluster().result(LONG_S).nodes
    assert {node.id: (node.host, node.port) for node in described} == expected(gate)
    for one in coordinators(gate, [f"group-{number}" for number in range(6)]):
        assert (one.host, one.port) == expected(gate)[one.node_id]


def coordinators(gate: Gate, groups: list[str]) -> list[Any]:
    """Who coordinates these groups, once the cluster has made the topic that it needs for them."""
    found: list[Any] = []

    def known() -> bool:
        with RawClient(gate.bootstrap) as raw:
            found[:] = raw.ask(call("find_coordinator", 6, key_type=0, coordinator_keys=groups)).coordinators
        return len(found) == len(groups) and all(one.error_code is ErrorCode.none for one in found)

    gate.eventually(known, "all groups have a coordinator")
    return found


def test_a_client_that_means_another_node_gets_the_brokers_answer(
    gate: Gate, kafka_cluster: KafkaCluster
) -> None:
    assert addresses(gate) == expected(gate)
    admin = AdminClient({"bootstrap.servers": gate.bootstrap})
    described: Any = admin.describe_cluster().result(LONG_S)

    def errors(bootstrap: str) -> list[int]:
        answers = []
        for meant in (2, 3):
            with RawClient(bootstrap) as raw:
                raw.send(with_length([api_versions_5(described.cluster_id, meant)]))
                answers.append(int.from_bytes(raw.frame()[4:6], "big"))
        return answers

    answered = errors(f"127.0.0.1:{node_port(gate, 2)}")
    assert answered == errors(kafka_cluster.nodes[1].bootstrap)
    # REBOOTSTRAP_REQUIRED; before Kafka 4.4 UNSUPPORTED_VERSION
    assert answered in ([0, 129], [35, 35])


def test_java_admin_tools_see_the_gateway_only(gate: Gate, kafka_cluster: KafkaCluster) -> None:
    create_topic(kafka_cluster.bootstrap, "for-java", partitions=6, copies=3)
    text = run_java_tool(
        "TopicCommand", "--bootstrap-server", gate.bootstrap, "--describe", "--topic", "for-java"
    )
    assert text.count("Partition: ") == 6
    text = run_java_tool("ClusterTool", "list-endpoints", "--bootstrap-server", gate.bootstrap)
    rows = [line.split() for line in text.splitlines() if line[:1].isdigit()]
    assert {int(row[0]): (row[1], int(row[2])) for row in rows} == expected(gate)


def test_java_clients_reach_all_leaders(gate: Gate, kafka_cluster: KafkaCluster) -> None:
    create_topic(kafka_cluster.bootstrap, "java-spread", partitions=6)
    small = {"batch.size": "200"}  # a producer changes partitions with each batch
    assert produce_with_java(gate.bootstrap, "java-spread", 2000, properties=small).sent == 2000
    assert consume_with_java(gate.bootstrap, "java-spread", 2000) == 2000
    assert len({one.partition for one in read_topic(kafka_cluster.bootstrap, "java-spread")}) == 6


@pytest.mark.seed("S1-033", "S1-041")
async def test_one_producer_over_three_leaders_counts_one(gate: Gate, kafka_cluster: KafkaCluster) -> None:
    create_topic(kafka_cluster.bootstrap, "single", partitions=6)
    with SteadyProducer(gate.bootstrap, "single", "first", keyed=False, enable_idempotence=False) as producer:
        producer.goes_on(200)
        assert {place[0] for place in producer.log.acked.values() if place} == set(range(6))
        gate.eventually(
            lambda: gate.metric("producer_count", topic_name="single") == 1, "one producer is counted"
        )
        refused = await send_with_aiokafka(gate.bootstrap, "single", 1, lane="second")
        assert "PolicyViolation" in next(iter(refused.errored.values()))
    assert not producer.log.errored
    gate.eventually(lambda: gate.metric("producer_count", topic_name="single") == 0, "none is counted")
    assert len((await send_with_aiokafka(gate.bootstrap, "single", 5, lane="third")).acked) == 5


def test_ports_are_the_same_after_a_restart(gate: Gate, kafka_cluster: KafkaCluster) -> None:
    create_topic(kafka_cluster.bootstrap, "stable", partitions=6)
    with SteadyProducer(gate.bootstrap, "stable", "stable", keyed=False) as producer:
        gate.restart()
        # No client has asked the new process for addresses yet: it must know the nodes from before.
        for node_id in _NODES:
            with RawClient(f"127.0.0.1:{node_port(gate, node_id)}") as raw:
                raw.ask(call("api_versions", 3, client_software_name="raw", client_software_version="1"))
        producer.goes_on()
    assert not producer.log.errored
    judge(producer.log, read_topic(kafka_cluster.bootstrap, "stable")).assert_clean()


def test_bootstrap_addresses_are_tried_in_turn(kafka_cluster: KafkaCluster, tmp_path: Any) -> None:
    create_topic(kafka_cluster.bootstrap, "turn")
    dead = free_ports(1)[0]
    with Gate(tmp_path / "gate", f"127.0.0.1:{dead},{kafka_cluster.bootstrap}") as gate:
        assert len(send_with_confluent(gate.bootstrap, "turn", 10).acked) == 10
        gate.eventually(lambda: gate.metric("sluicegate_upstream_dials_failed_total") > 0, "it is counted")
        gate.eventually(lambda: f"cannot reach broker at 127.0.0.1:{dead}" in gate.output(), "it is told")


# -- leaders that move --------------------------------------------------------------------------------


def leader_of(cluster: KafkaCluster, topic: str) -> int:
    """The node that leads partition 0."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return int(admin.list_topics(topic, timeout=LONG_S).topics[topic].partitions[0].leader)


def lead_by(cluster: KafkaCluster, topic: str, node_ids: list[int]) -> None:
    """Have the first of these nodes lead partition 0."""
    partition = {"partition_index": 0, "replicas": node_ids}
    move = call("alter_partition_reassignments", 0, topics=[{"name": topic, "partitions": [partition]}])
    elect = call("elect_leaders", 2, election_type=0, topic_partitions=[{"topic": topic, "partitions": [0]}])
    with RawClient(cluster.nodes[0].bootstrap) as raw:
        assert raw.ask(move).error_code is ErrorCode.none

        def leads() -> bool:
            return leader_of(cluster, topic) == node_ids[0] or not raw.ask(elect)

        until(leads, f"node {node_ids[0]} leads {topic!r}")


def test_endpoints_of_a_new_leader_are_the_gates(gate: Gate, kafka_cluster: KafkaCluster) -> None:
    create_topic(kafka_cluster.bootstrap, "moved", copies=3)
    old = leader_of(kafka_cluster, "moved")
    new = next(node_id for node_id in _NODES if node_id != old)
    partition = {"index": 0, "records": batch(b"x")}
    produce = call(
        "produce", 12, acks=1, topic_data=[{"name": "moved", "partition_data": [partition]}], **_timeout(5)
    )
    settings: dict[str, Any] = {"topic_metadata_refresh_interval_ms": 60_000}
    with (
        RawClient(f"127.0.0.1:{node_port(gate, old)}") as raw,
        SteadyProducer(gate.bootstrap, "moved", "mover", **settings) as producer,
    ):
        assert raw.ask(produce).responses[0].partition_responses[0].error_code is ErrorCode.none
        lead_by(kafka_cluster, "moved", [new, *(node_id for node_id in _NODES if node_id != new)])
        told = until(lambda: _refused_by_old_leader(raw.ask(produce)), f"node {old} knows of {new}")
        producer.goes_on(200)
    answer = told.responses[0].partition_responses[0]
    assert answer.current_leader.leader_id == new
    assert {one.node_id: (one.host, one.port) for one in told.node_endpoints} == {new: expected(gate)[new]}
    assert not producer.log.errored
    stored = [one for one in read_topic(kafka_cluster.bootstrap, "moved") if one.value != b"x"]
    judge(producer.log, stored).assert_clean()


def _refused_by_old_leader(told: Any) -> Any:
    """Nodes learn of a new leader one by one: until then the old one takes the record, and loses it."""
    code = told.responses[0].partition_responses[0].error_code
    assert code in {ErrorCode.none, ErrorCode.not_leader_or_follower}
    return told if code is ErrorCode.not_leader_or_follower else None


def _timeout(seconds: float) -> dict[str, Any]:
    return {"timeout": datetime.timedelta(seconds=seconds)}


# -- nodes that come and go ---------------------------------------------------------------------------


def test_a_node_that_leaves_and_comes_back_elsewhere(
    gate: Gate, kafka_cluster: KafkaCluster, tmp_path: Any
) -> None:
    """For a gateway that started meanwhile, it is one that has never been there."""
    topic = "moves"
    create_topic(kafka_cluster.bootstrap, topic, partitions=3, copies=3, min_insync_replicas="1")
    third = kafka_cluster.nodes[2]
    with SteadyProducer(gate.bootstrap, topic, "old-gate", keyed=False) as through_old:
        third.stop()
        wait_for_nodes(kafka_cluster.nodes[0].bootstrap, 2)
        through_old.goes_on(200)
        two = ",".join(node.bootstrap for node in kafka_cluster.nodes[:2])
        with Gate(tmp_path / "gate", two, _POLICIES) as new_gate:
            wait_for_nodes(new_gate.bootstrap, 2)
            assert not _accepts(node_port(new_gate, 3))
            with SteadyProducer(new_gate.bootstrap, topic, "new-gate", keyed=False) as through_new:
                third.move()
                third.start()
                for one in (gate, new_gate):
                    wait_for_nodes(one.bootstrap, 3)
                    assert _accepts(node_port(one, 3))
                    until(partial(_knows_all, one), "each node has told it of all")
                lead_by(kafka_cluster, topic, [3, 1, 2])
                for producer in (through_old, through_new):
                    _publishes_to(producer, partition=0)
            _reads_from(new_gate, topic)
            _reads_from(gate, topic)
    logs = through_old.log.merged(through_new.log)
    assert not logs.errored
    verdict = judge(logs, read_topic(kafka_cluster.bootstrap, topic))
    # librdkafka that has no answer when a leader moves may begin a new epoch and store the record once more.
    replace(verdict, duplicated=[]).assert_clean()


def _publishes_to(producer: SteadyProducer, partition: int) -> None:
    """Return once the producer has more confirmed on a partition."""

    def confirmed() -> int:
        places = list(producer.log.acked.values())
        return sum(place is not None and place[0] == partition for place in places)

    before = confirmed()
    until(lambda: confirmed() > before, f"{producer.lane} publishes to partition {partition}")


def _knows_all(gate: Gate) -> bool:
    return addresses(gate) == expected(gate)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _reads_from(gate: Gate, topic: str) -> None:
    """A group reads through the gateway."""
    consumer = Consumer(
        {"bootstrap.servers": gate.bootstrap, "group.id": f"of {gate.port}", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        seen: set[int] = set()

        def all_seen() -> bool:
            # All that has come: a partition may hold so much that the others come late.
            for message in consumer.consume(10_000, 1):
                if message.error() is None:
                    seen.add(message.partition() or 0)
            return seen == {0, 1, 2}

        until(all_seen, "records of all partitions are read")
    except KafkaException as error:
        pytest.fail(str(error))
    finally:
        consumer.close()
