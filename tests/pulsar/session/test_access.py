"""Pulsar's clients on topics that they may only read, only write, or not use at all."""

import pytest
from tests.pulsar.session.consumers.test_consuming import answer_list
from tests.pulsar.session.deliveries import refused, subscribe
from tests.pulsar.session.messages import producer
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec.pulsar_pb2 import ServerError

Policies = dict[str, str | bool]


@pytest.mark.parametrize("policies", [{"read_only": True}, {"client_id_pattern": "other-*"}])
def test_a_producer_is_refused(policies: Policies) -> None:
    wire = Wire(Bench(**policies))
    wire.client_sends(producer(0, request_id=0))
    code, text = refused(wire)
    assert code == ServerError.NOT_ALLOWED_ERROR
    assert next(iter(policies)) in text
    assert wire.upstream == b""


@pytest.mark.parametrize("policies", [{"write_only": True}, {"client_id_pattern": "other-*"}])
def test_a_consumer_is_refused(policies: Policies) -> None:
    wire = Wire(Bench(**policies))
    wire.client_sends(subscribe(0, 1))
    answer_list(wire)
    code, text = refused(wire)
    assert code == ServerError.NOT_ALLOWED_ERROR
    assert next(iter(policies)) in text
    assert wire.upstream == b""
