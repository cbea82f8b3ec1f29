"""Kafka's clients on topics that they may only read, only write, or not use at all."""

import pytest
from tests.kafka.session.messages import (
    batch,
    fetch,
    fetch_errors,
    fetched,
    join,
    join_error,
    outcome,
    produce,
    records_of,
)
from tests.kafka.session.wire import Bench, Wire

POLICY_VIOLATION, NOT_AUTHORIZED, GROUP_NOT_AUTHORIZED = 44, 29, 30


def test_a_read_only_topic_takes_no_records() -> None:
    wire = Wire(Bench(read_only=True))
    wire.client_sends(produce({"t": batch(b"x")}))
    assert wire.forwarded() == []
    text = "Topic t is read-only. Publish to another topic, or remove policy read_only."
    assert outcome(wire.answered()[0])["t", 0][0] == POLICY_VIOLATION
    wire.client_sends(produce({"t": batch(b"x")}, correlation_id=2))
    assert str(outcome(wire.answered()[0])["t", 0][1]).startswith(text)


@pytest.mark.parametrize("policies", [{"write_only": True}, {"client_id_pattern": "other-*"}])
def test_a_consumer_without_a_group_gets_nothing(policies: dict[str, str | bool]) -> None:
    wire = Wire(Bench(**policies))
    wire.client_sends(fetch("t"))
    assert len(wire.forwarded()) == 1
    wire.broker_sends(fetched({"t": batch(b"x")}))
    wire.wait(1)
    (answer,) = wire.answered()
    assert fetch_errors(answer) == {"t": NOT_AUTHORIZED}
    assert records_of(answer) == {"t": b""}


@pytest.mark.parametrize("policies", [{"write_only": True}, {"client_id_pattern": "other-*"}])
def test_a_member_of_a_group_is_refused(policies: dict[str, str | bool]) -> None:
    wire = Wire(Bench(**policies))
    wire.shared.learned.listing.learned({}, wire.now, wire.now)
    wire.client_sends(join("g", "t", member="m"))
    assert wire.forwarded() == []
    assert join_error(wire.answered()[0]) == GROUP_NOT_AUTHORIZED
