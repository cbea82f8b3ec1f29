"""Kafka's own tools describe the quorum through the gateway and learn no address behind it."""

import re

import pytest
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.java import run_java_tool


@pytest.mark.parametrize("part", ["--status", "--replication"])
def test_the_quorum_is_described_without_addresses(kafka: KafkaBroker, gate: Gate, part: str) -> None:
    direct, through = (
        run_java_tool("MetadataQuorumCommand", "--bootstrap-server", bootstrap, "describe", part)
        for bootstrap in (kafka.bootstrap, gate.bootstrap)
    )
    assert re.search(r"LeaderId: +1|\tLeader", through)
    assert [line.split()[:1] for line in through.splitlines()] == [
        line.split()[:1] for line in direct.splitlines()
    ]
    assert ("CONTROLLER://" in direct) == (part == "--status")
    assert "CONTROLLER://" not in through
