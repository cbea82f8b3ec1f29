"""The example, the documentation and the JSON Schema say what the models say."""

import json
import pickle
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError
from pydantic import BaseModel

from sluicegate.config import BrokerConfig, GatewayConfig, PolicyModel
from sluicegate.config.descriptions import descriptions
from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.fields import PolicyFields, models_in
from sluicegate.config.json_schema import json_schema
from sluicegate.config.load import Loaded, load
from sluicegate.config.tree import Plain, parse
from sluicegate.policies import builtin_plugins
from sluicegate_danube.config import DanubeConfig
from sluicegate_grpc.proxy.entry import MapEntry
from sluicegate_kafka.config import KafkaConfig
from sluicegate_pulsar.config import PulsarConfig

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "gateway.yaml"
DOCUMENT = ROOT / "docs" / "configuration.md"


def policy_models() -> list[type[PolicyModel]]:
    return [
        plugin.sluicegate_policy_model()
        for plugin in builtin_plugins()
        if hasattr(plugin, "sluicegate_policy_model")
    ]


@pytest.fixture(scope="module")
def loaded() -> Loaded:
    return load(EXAMPLE, policy_models(), [KafkaConfig], {})


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schema(policy_models(), [KafkaConfig])


@pytest.fixture(scope="module")
def is_valid(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator(schema)


def plain(text: str) -> Plain:
    return parse(text, "text", []).plain()


def test_the_example_is_valid(loaded: Loaded) -> None:
    assert [broker.name for broker in loaded.config.brokers] == ["main"]
    assert {layer.name for layer in loaded.policy_layers} == {
        "",
        "orders",
        "test-*",
        "orders.audit",
        "orders.reminders",
    }


def test_the_whole_configuration_can_be_sent_to_a_worker(loaded: Loaded) -> None:
    assert pickle.loads(pickle.dumps(loaded.config)) == loaded.config


HOSTILE = (
    "|0|-1|1.5|true|null|[]|{}|[[1]]|{a: {b: 1}}|&x 1|*x|!!int 1|'|\\|- -|name: main|1e400|é|drop|10MiB/s|? a"
)
hostile = st.sampled_from([*HOSTILE.split("|"), "\t", "|", "9" * 30, "9" * 50]) | st.text(max_size=6)


@given(st.data())
def test_any_spoilt_line_of_the_example_is_read_or_refused_with_a_place(data: st.DataObject) -> None:
    lines = EXAMPLE.read_text().splitlines()
    used = [number for number, line in enumerate(lines) if line.strip() and line.lstrip()[0] != "#"]
    for number in data.draw(st.lists(st.sampled_from(used), min_size=1, max_size=3)):
        head, colon, _ = lines[number].partition(":")
        keep = data.draw(st.booleans())
        indent = " " * (len(lines[number]) - len(lines[number].lstrip()))
        lines[number] = (f"{head}{colon} " if keep else indent) + data.draw(hostile)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "gateway.yaml")
        file.write_text("\n".join(lines), "utf-8", "replace")
        errors: list[Finding] = []
        try:
            load(file, policy_models(), [KafkaConfig], {})
        except ConfigErrors as refused:
            errors = refused.errors
    assert all(error.line >= 1 and error.message and error.render() for error in errors)


@pytest.mark.seed("S1-140")
def test_the_example_explains_every_policy_and_what_zero_means(loaded: Loaded) -> None:
    text = EXAMPLE.read_text()
    paragraphs = text.split("\n\n")
    for name in loaded.fields.infos:
        [about, *_] = [each for each in paragraphs if f" {name}:" in each]
        assert re.search(r"^ +# [A-Z]", about, re.MULTILINE), name
    assert "0 always means unlimited" in text


@pytest.mark.seed("S1-141", "S1-142", "X-05")
def test_the_documentation_names_every_key(loaded: Loaded) -> None:
    text = DOCUMENT.read_text()
    names = set(loaded.fields.infos) | set(loaded.fields.aliases)
    names |= {name.rsplit(".", 1)[-1] for name in keys(GatewayConfig) if name != "brokers"}
    for entry in (BrokerConfig, KafkaConfig, PulsarConfig, DanubeConfig, MapEntry):
        names |= {name.rsplit(".", 1)[-1] for name in keys(entry)}
    assert {name for name in names if not re.search(rf"[`.]{name}\b", text)} == set()
    assert "messages per second, bytes per second, or both" in text
    assert "`burst_seconds` (1.0 if unset)" in text


def keys(model: type[BaseModel]) -> Iterator[str]:
    for name, info in model.model_fields.items():
        inner = [] if name == "brokers" else models_in(info.annotation)
        yield from (f"{name}.{key}" for each in inner for key in keys(each))
        if not inner:
            yield name


@pytest.mark.seed("S1-141")
def test_the_examples_of_the_documentation_are_valid(is_valid: Draft202012Validator) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(blocks) == 5
    broker = plain(EXAMPLE.read_text())
    assert isinstance(broker, dict)
    for block in blocks:
        part = plain(block)
        assert isinstance(part, dict)
        is_valid.validate({**part, "brokers": broker["brokers"]})


def test_the_schema_accepts_the_example(schema: dict[str, Any], is_valid: Draft202012Validator) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)
    is_valid.validate(plain(EXAMPLE.read_text()))
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize(
    "policies",
    [
        "{broker: {max_publish_rte: 1}}",
        "{broker: {max_publish_rate: -1}}",
        "{broker: {max_producers_per_topic: 1.5}}",
        "{broker: {max_publish_rate: 4294967296}}",
        "{broker: {max_publish_rate: 10MiB}}",
        "{broker: {on_limit: {max_message_size: drop}}}",
        "{broker: {mode: sometimes}}",
        "{broker: {locked: [nothing]}}",
        "{topics: [{max_publish_rate: 1}]}",
    ],
)
def test_the_schema_refuses_what_loading_refuses(is_valid: Draft202012Validator, policies: str) -> None:
    broker = plain(EXAMPLE.read_text())
    assert isinstance(broker, dict)
    with pytest.raises(ValidationError):
        is_valid.validate({**broker, "policies": plain(policies)})


@pytest.mark.parametrize(
    "policies",
    [
        "{broker: {max_publish_rate_msg: 500/s, max_message_size: 1.5MiB, fixed_delivery_delay: 500}}",
        "{broker: {mode: observe, on_limit: {max_publish_rate: drop}}}",
        "{broker: {mode: { max_publish_rate: observe }, locked: [], ceiling: {max_publish_rate: 5}}}",
        "{namespaces: [{name: a, max_publish_rate: null}]}",
    ],
)
def test_the_schema_accepts_what_loading_accepts(is_valid: Draft202012Validator, policies: str) -> None:
    broker = plain(EXAMPLE.read_text())
    assert isinstance(broker, dict)
    is_valid.validate({**broker, "policies": plain(policies)})


def test_every_key_of_the_schema_is_described(schema: dict[str, Any]) -> None:
    missing = [
        f"{model}.{name}"
        for model, definition in schema["$defs"].items()
        for name, entry in definition.get("properties", {}).items()
        if "description" not in entry and "$ref" not in entry
    ]
    options = ("OnLimit.", "OnUnknown.", "ObserveOnly.")
    assert [name for name in missing if not name.startswith(options)] == []


def test_fields_of_the_products_policies_are_described() -> None:
    described = {name for model in policy_models() for name in descriptions(model)}
    assert PolicyFields.of(policy_models()).infos.keys() <= described
