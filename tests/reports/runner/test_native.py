"""Settings that the systems' own policies get."""

import asyncio
import struct
from pathlib import Path

import pytest

from sluicegate.model import EffectivePolicies, Level, Provenance, Source
from sluicegate_reports.registry import policies
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Arm, Broker, Setting
from sluicegate_reports.runner.doors.native_kafka import (
    JUDGED,
    STRIMZI_JUDGED,
    decode_response,
    encode_quotas,
    set_quotas,
    strimzi_properties,
)
from sluicegate_reports.runner.doors.native_pulsar import JUDGED as OF_PULSAR
from sluicegate_reports.runner.doors.native_pulsar import is_set, settings_of, topic_path
from sluicegate_reports.runner.loading import LoadedScenario
from sluicegate_reports.runner.scenario import Scenario

TOPIC = "default.orders--native-1"
_SCENARIO = Scenario.model_validate(
    {
        "name": "small",
        "topics": [{"name": "orders"}],
        "producers": [{"name": "source", "topic": "orders"}],
        "phases": [{"name": "all", "duration": 1000}],
    }
)


def held(**values: float) -> EffectivePolicies:
    provenance = {name: Provenance(Level.TOPIC, Source.FILE, "") for name in values}
    provenance["max_message_size"] = provenance.get("max_message_size", Provenance(None, Source.DEFAULT, ""))
    return EffectivePolicies(TOPIC, 1, {"max_message_size": 10 << 20, **values}, provenance)


def test_pulsar_gets_the_settings_of_the_scenario_and_no_defaults() -> None:
    assert settings_of(held()) == {}
    assert settings_of(held(max_producers_per_topic=3, max_message_size=4096)) == {
        "maxProducers": 3,
        "maxMessageSize": 4096,
    }
    assert settings_of(held(max_publish_rate=5, max_publish_rate_bytes=9, max_dispatch_rate=7)) == {
        "publishRate": {"publishThrottlingRateInMsg": 5, "publishThrottlingRateInByte": 9},
        "dispatchRate": {
            "dispatchThrottlingRateInMsg": 7,
            "dispatchThrottlingRateInByte": -1,
            "ratePeriodInSecond": 1,
        },
    }
    assert settings_of(held(max_delivery_delay=2000))["delayedDelivery"] == {
        "active": True,
        "tickTime": 100,
        "maxDeliveryDelayInMillis": 2000,
    }
    assert settings_of(held(fixed_delivery_delay=2000)) == {}
    assert OF_PULSAR["fixed_delivery_delay"].not_applicable


def test_brokers_may_add_fields_but_change_none() -> None:
    assert is_set({"a": 1, "b": 2}, {"a": 1})
    assert not is_set({"a": 2}, {"a": 1})
    assert not is_set(None, 3)
    assert topic_path("persistent://public/default/a b") == "/persistent/public/default/a%20b"


def test_every_policy_is_judged_for_kafka_and_never_as_the_policy_says() -> None:
    for policy in policies():
        for judged in (JUDGED[policy], STRIMZI_JUDGED[policy]):
            assert bool(judged.nearest) != bool(judged.not_applicable)


def test_the_strimzi_plug_in_gets_only_rates_that_are_set() -> None:
    lines = strimzi_properties(1000, 0, 9092)
    assert lines["client.quota.callback.static.produce"] == "1000"
    assert "client.quota.callback.static.fetch" not in lines


def test_a_quota_is_encoded_as_kip_546_says() -> None:
    assert encode_quotas("id", {"producer_byte_rate": 1.0}) == (
        b"\0\0\0\1"  # one entry
        b"\0\0\0\1\0\x09client-id\0\2id"  # of one entity
        b"\0\0\0\1\0\x12producer_byte_rate\x3f\xf0\0\0\0\0\0\0\0"  # one change: 1.0, not removed
        b"\0"  # not only to be validated
    )
    assert decode_response(struct.pack(">iihh", 0, 1, 42, 3) + b"no!" + b"\0\0\0\0") == (42, "no!")
    assert decode_response(struct.pack(">iihh", 0, 1, 0, -1)) == (0, "")
    with pytest.raises(struct.error):
        decode_response(b"\0")


def _setting(tmp_path: Path, address: str) -> tuple[Broker, Setting]:
    from sluicegate_reports.runner.doors.native import ARMS

    arm: Arm = ARMS[0]
    broker = Broker("kafka", (address,), "", "")
    setting = Setting(
        LoadedScenario(_SCENARIO, "", ""),
        "run",
        arm,
        {"orders": TOPIC},
        tmp_path,
        tmp_path,
        broker,
        lambda _: held(max_publish_rate_bytes=1000),
    )
    return broker, setting


@pytest.mark.parametrize(("code", "refused"), [(0, False), (31, True)])
async def test_quotas_are_asked_for_on_the_wire(code: int, refused: bool, tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        asked.append(await reader.readexactly(length))
        body = struct.pack(">iiihh", 1, 0, 1, code, 2) + b"no"
        writer.write(struct.pack(">i", len(body)) + body)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        broker, setting = _setting(tmp_path, f"{host}:{port}")
        if refused:
            with pytest.raises(UnavailableError, match="error 31 no"):
                await set_quotas(broker, setting)
        else:
            await set_quotas(broker, setting)
    assert asked[0].startswith(b"\0\x31\0\0\0\0\0\1")
    assert asked[0].endswith(encode_quotas(TOPIC, {"producer_byte_rate": 1000.0}))


async def test_a_broker_that_hangs_up_is_reported(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        broker, setting = _setting(tmp_path, f"{host}:{port}")
        with pytest.raises(UnavailableError, match="quotas cannot be set"):
            await set_quotas(broker, setting)
