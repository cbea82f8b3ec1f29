"""Wrappers stand in for the libraries' classes, with the same parameters.

`signatures.txt` has the originals' signatures as they were when the wrappers were written. A change of the
library fails here; look at what it means for the wrapper before you write the new line.
"""

import inspect
import re
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import confluent_kafka.aio
import danube
import pulsar
import pulsar.asyncio
import pytest

from sluicegate_danube import client as danube_client
from sluicegate_kafka import client as kafka_client
from sluicegate_pulsar import client as pulsar_client
from sluicegate_pulsar.client import aio as pulsar_aio

RECORDED = Path(__file__).parent / "signatures.txt"
WRAPPED: list[tuple[type[Any], type[Any]]] = [
    (aiokafka.AIOKafkaProducer, kafka_client.AIOKafkaProducer),
    (aiokafka.AIOKafkaConsumer, kafka_client.AIOKafkaConsumer),
    (confluent_kafka.Producer, kafka_client.Producer),
    (confluent_kafka.Consumer, kafka_client.Consumer),
    (confluent_kafka.aio.AIOProducer, kafka_client.AIOProducer),
    (confluent_kafka.aio.AIOConsumer, kafka_client.AIOConsumer),
    (pulsar.Client, pulsar_client.Client),
    (pulsar.Producer, pulsar_client.Producer),
    (pulsar.Consumer, pulsar_client.Consumer),
    (pulsar.asyncio.Client, pulsar_aio.Client),
    (pulsar.asyncio.Producer, pulsar_aio.Producer),
    (pulsar.asyncio.Consumer, pulsar_aio.Consumer),
    (danube.DanubeClientBuilder, danube_client.DanubeClientBuilder),
    (danube.DanubeClient, danube_client.DanubeClient),
    (danube.Producer, danube_client.Producer),
    (danube.Consumer, danube_client.Consumer),
]


def public(of: type[Any]) -> list[str]:
    """Methods of a class that applications call, and its constructor."""
    return sorted(
        name
        for name in dir(of)
        if callable(getattr(of, name)) and (name == "__init__" or not name.startswith("_"))
    )


def parameters(of: type[Any], name: str) -> str:
    """Parameters of a method with their defaults; classes written in C tell none."""
    try:
        signature = inspect.signature(getattr(of, name))
    except ValueError:
        return "(...)"
    shown = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    return re.sub(" at 0x[0-9a-f]+", "", str(inspect.Signature(shown)))


def originals() -> str:
    """What `signatures.txt` should have."""
    lines = [
        f"{original.__module__}.{original.__name__}.{name}{parameters(original, name)}"
        for original, _ in WRAPPED
        for name in public(original)
    ]
    return "\n".join(lines) + "\n"


def test_the_libraries_are_as_they_were_when_they_were_wrapped() -> None:
    assert RECORDED.read_text() == originals()


@pytest.mark.parametrize(("original", "wrapper"), WRAPPED)
def test_a_wrapper_takes_what_its_original_takes(original: type[Any], wrapper: type[Any]) -> None:
    for name in set(public(original)) & set(vars(wrapper)) - {"__init__"}:
        theirs, ours = parameters(original, name), parameters(wrapper, name)
        if theirs == "(...)" or "*args, **" in ours:
            continue
        assert ours == theirs, f"{wrapper.__name__}.{name}"
