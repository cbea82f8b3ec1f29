"""Ids in Danube's messages, and what a resumer does without a broker that answers."""

import asyncio

import pytest
from danube.proto import DanubeApi_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.broker.broker_ports import BrokerPorts
from sluicegate_danube.brokers import address_of
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.lookup import Lookup
from sluicegate_danube.resuming import ProducerResumer, renamed
from sluicegate_grpc.proxy.splice.resuming import Resume, Resumed

ids = st.integers(0, 2**64 - 1)
messages = st.builds(
    pb.StreamMessage,
    request_id=ids,
    msg_id=st.builds(pb.MsgID, producer_id=ids, topic_name=st.text(), broker_addr=st.text()),
    payload=st.binary(),
    producer_name=st.text(),
    attributes=st.dictionaries(st.text(), st.text(), max_size=3),
)


@given(messages, ids)
def test_only_the_id_changes(message: pb.StreamMessage, created: int) -> None:
    told = pb.StreamMessage.FromString(renamed(message.SerializeToString(), (2, 1), created))
    message.msg_id.producer_id = created
    assert told == message


@given(ids, ids)
def test_only_the_id_of_a_health_check_changes(number: int, created: int) -> None:
    check = pb.HealthCheckRequest(request_id=number, client=pb.HealthCheckRequest.Consumer, id=number)
    told = pb.HealthCheckRequest.FromString(renamed(check.SerializeToString(), (3,), created))
    check.id = created
    assert told == check


@given(st.binary(max_size=40))
def test_other_bytes_raise_or_stay_unchanged(data: bytes) -> None:
    try:
        renamed(data, (2, 1), 5)
    except ValueError:
        return


def test_both_parts_of_a_message_are_rewritten() -> None:
    """Of a message that comes twice the last one's fields count (protobuf's merging)."""
    parts = [pb.StreamMessage(msg_id=pb.MsgID(producer_id=number)).SerializeToString() for number in (1, 2)]
    told = pb.StreamMessage.FromString(renamed(b"".join(parts), (2, 1), 9))
    assert told.msg_id.producer_id == 9


@pytest.fixture
def config() -> DanubeConfig:
    listen = {"host": "127.0.0.1", "port": 6650}
    return DanubeConfig.model_validate(
        {"name": "d", "system": "danube", "bootstrap": ["127.0.0.1:1"], "listen": listen, "max_hold": "100ms"}
    )


def resumer(config: DanubeConfig) -> ProducerResumer:
    brokers: BrokerPorts = BrokerPorts(config, {}, address_of)
    lookup = Lookup(brokers, "ports", False)
    return ProducerResumer(config, brokers, lookup, lambda topic: False)


async def test_without_a_broker_clients_are_asked_to_retry(config: DanubeConfig) -> None:
    made = resumer(config)
    question = Resume(7, "/default/t", "p", "")
    first, second = await asyncio.gather(made.resume(question), made.resume(question))
    assert first is second
    assert first.refusal is not None
    assert "no owner yet" in first.refusal.text
    assert not made._under_way


async def test_a_creation_goes_on_for_the_others_who_ask(config: DanubeConfig) -> None:
    made = resumer(config)
    question = Resume(7, "/default/t", "p", "")
    gives_up, waits = (asyncio.ensure_future(made.resume(question)) for _ in range(2))
    await asyncio.sleep(0)
    gives_up.cancel()
    assert (await waits).refusal is not None


async def test_concurrent_creations_are_bounded(config: DanubeConfig) -> None:
    made = resumer(config)
    made._under_way._under_way = {
        number: asyncio.ensure_future(asyncio.sleep(0, Resumed())) for number in range(10_000)
    }
    answer = await made.resume(Resume(10_001, "/default/t", "p", ""))
    assert answer.refusal is not None
    made.cancel()
