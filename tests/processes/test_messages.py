import asyncio

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.echo_plugin import EchoConfig

from sluicegate.model import Level, PolicyLayer, PolicySet, Setting, Source
from sluicegate.processes import messages

values = st.one_of(st.integers(0, 2**53), st.booleans(), st.text(max_size=8), st.floats(0, 10))
level_settings = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.builds(Setting, values, st.sampled_from(Source), st.text(max_size=8), st.booleans()),
    max_size=3,
)
layers = st.builds(PolicyLayer, st.sampled_from(Level), st.text(max_size=8), level_settings, level_settings)
names = st.frozensets(st.text(max_size=8), max_size=3)
policy_sets = st.builds(
    PolicySet, st.integers(0, 2**40), st.lists(layers, max_size=3).map(tuple), st.booleans(), names, names
)


@settings(deadline=None, max_examples=50)
@given(policy_sets)
def test_policies_survive_serialization(policies: PolicySet) -> None:
    data = orjson.loads(messages.encode("policies", policies=policies))["policies"]
    assert messages.policies_from_json(data) == policies


@pytest.mark.parametrize("data", [{}, {"version": 1}, {"version": 1, "layers": [{}]}])
def test_unreadable_policies_are_refused(data: dict[str, object]) -> None:
    with pytest.raises(messages.BrokenMessageError):
        messages.policies_from_json(data)


def test_configuration_is_restored_as_its_own_class() -> None:
    config = EchoConfig.model_validate(
        {
            "name": "b",
            "system": "echo",
            "bootstrap": ["kafka:9092", "[::1]:9093"],
            "listen": {"port": 1},
            "exempt": {"principals": ["User:a"]},
            "tls": {"broker": {"ca": "ca.pem"}},
        }
    )
    data = orjson.loads(messages.encode("start", config=config))["config"]
    assert EchoConfig.model_validate(data) == config


async def _received(data: bytes) -> object:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await messages.receive(reader)


def test_messages_are_split_by_their_length_prefix() -> None:
    frame = b"\0\0\0\x0c" + b'{"kind":"x"}'
    assert asyncio.run(_received(frame + b"\0\0")) == {"kind": "x"}
    assert asyncio.run(_received(frame[:-1])) is None
    assert asyncio.run(_received(b"")) is None


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\x01x", b"\0\0\0\x02[]"])
def test_a_malformed_message_is_refused(data: bytes) -> None:
    with pytest.raises(messages.BrokenMessageError):
        asyncio.run(_received(data))
