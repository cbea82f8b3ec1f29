"""Refusals in mid-stream: a refused message is not stored, all others are, once and in order."""

from typing import Any

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import Family, Form, Published, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge, number_of
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.native import SENDING, TOO_BIG_PYTHON
from tests.pulsar.real.support.python import PythonFamily, read_topic
from tests.pulsar.real.support.raw import RawClient

LIMIT, LARGE = 500, 2_000
COUNT = 300
PER_BATCH = 2
ERRORS = {"python": "ChecksumError", "java": "NotAllowedException"}
BATCHES: dict[str, dict[str, Any]] = {
    "python": {"batching_max_messages": PER_BATCH},
    "java": {"batchingMaxMessages": PER_BATCH},
}


def values_with_large(every: int, at: int) -> list[str]:
    """Every so many a value that is too large."""
    small, large = numbered(COUNT), numbered(COUNT, pad=LARGE)
    return [large[number] if number % every == at else small[number] for number in range(COUNT)]


def failed(published: list[Published]) -> set[int]:
    return {number_of(one.value) for one in published if one.entry is None}


@pytest.mark.seed("S1-008", "S1-050", "S1-051")
@pytest.mark.parametrize("form", [Form.SINGLE, Form.BATCHED])
def test_every_third_message_is_too_large(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, family: Family, form: Form
) -> None:
    topic, values = new_topic(), values_with_large(3, 2)[:-1]
    gate.apply({"topics": [{"name": topic, "max_message_size": LIMIT}]})
    settings = BATCHES[family.name] if form is Form.BATCHED else {}
    published = family.produce(gate.service_url, topic, values, form=form, settings=settings).close()
    assert len(published) == len(values)
    large = {number for number in range(len(values)) if number % 3 == 2}
    assert large <= failed(published)
    if form is Form.SINGLE:
        assert failed(published) == large
    else:
        # A batch has one answer: what shares one with a message that is too large fails with it.
        shared = {at for number in large for at in range(number - PER_BATCH + 1, number + PER_BATCH)}
        assert failed(published) <= shared
        assert len(values) - len(failed(published)) > COUNT // 5
    told = {(one.error, SENDING["max_message_size"].text in one.text) for one in published if not one.entry}
    assert told == {(ERRORS[family.name], family.name == "java")}
    judge(published, read_topic(pulsar.service_url, topic)).assert_clean()


@pytest.mark.seed("S1-008", "S1-050")
def test_chunked_messages_are_limited_as_a_whole_and_keep_their_place(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, java: JavaFamily
) -> None:
    """Native Pulsar does not limit them: what is cut into chunks passes any limit there."""
    topic, values = new_topic(), values_with_large(3, 2)
    gate.apply({"topics": [{"name": topic, "max_message_size": LIMIT}]})
    published = java.produce(gate.service_url, topic, values, form=Form.CHUNKED).close()
    assert failed(published) == {number for number in range(COUNT) if number % 3 == 2}
    judge(published, read_topic(pulsar.service_url, topic)).assert_clean()


@pytest.mark.seed("S1-008", "S1-023")
def test_a_limit_of_all_topics_is_announced_to_clients_that_support_it(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, python: PythonFamily, java: JavaFamily
) -> None:
    topic, limit = new_topic(), 300_000
    gate.apply({"broker": {"max_message_size": limit}})
    values = ["m:0", "m:1" + " " * limit, "m:2"]
    with RawClient(gate.bootstrap, "Pulsar-CPP-v4.2.0") as client:
        assert client.connected.connected.max_message_size == limit
    published = python.produce(gate.service_url, topic, values).close()
    assert {one.value[:3]: one.error for one in published} == {"m:0": "", "m:1": TOO_BIG_PYTHON, "m:2": ""}
    assert not gate.decisions(topic=topic, action="reject")
    published = java.produce(gate.service_url, topic, values).close()
    errors = {one.value[:3]: one.error for one in published}
    assert errors == {"m:0": "", "m:1": ERRORS["java"], "m:2": ""}
    assert [one.value for one in read_topic(pulsar.service_url, topic)] == ["m:0", "m:2"] * 2
    gate.apply({})  # other tests share the gateway, and this limit holds for their topics too
