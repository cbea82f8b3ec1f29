"""What the file says of storage quotas, and every mistake with its place."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import jsonschema
import pytest
from pydantic import ValidationError
from tests.runtime.rules import change_beside

from sluicegate.broker import PolicyRefusedError
from sluicegate.config import BrokerConfig
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.fields import PolicyFields
from sluicegate.config.json_schema import json_schema
from sluicegate.config.load import Loaded, load
from sluicegate.engine.hierarchy import Resolver
from sluicegate.features.storage_quota.quota_fields import StoragePolicies, limits_of, problem_with
from sluicegate.features.storage_quota.volumes import Limit, Limits, LimitType, Volume
from sluicegate.model import EffectivePolicies, Level, TopicName
from sluicegate.runtime.plugins import CHOICE, load_plugins
from sluicegate.store import MemoryStore

SEED = "client.quota.callback.static.storage"
Load = Callable[..., Loaded]


class TubeConfig(BrokerConfig):
    """A kind of broker without sources of its own."""

    system: Literal["tube"]


@pytest.fixture
def load_file(tmp_path: Path) -> Load:
    """Load a broker's level of policies, and lines of the broker's entry."""

    def load_it(policies: str = "", entry: str = "") -> Loaded:
        file = tmp_path / "gateway.yaml"
        file.write_text(
            "brokers:\n  - name: main\n    system: tube\n"
            "    bootstrap: ['127.0.0.1:1']\n    listen: {port: 0}\n"
            + "".join(f"    {line}\n" for line in entry.splitlines())
            + ("policies:\n  broker:\n" + "".join(f"    {line}\n" for line in policies.splitlines()))
            if policies or entry
            else ""
        )
        return load(file, [StoragePolicies], [TubeConfig], {})

    return load_it


def broker_level(loaded: Loaded, *store: object) -> EffectivePolicies:
    layers = store[0].layers()[1] if store and isinstance(store[0], MemoryStore) else ()
    resolver = Resolver(loaded.policies(layers, 1, "main"), loaded.fields.defaults)
    return resolver.resolve(TopicName("", ""))


@pytest.mark.seed("S4-050", "S4-051", "S4-052", "X-08")
def test_the_seeds_property_names_are_other_names_of_the_fields(load_file: Load) -> None:
    loaded = load_file(
        f"{SEED}.hard: 900GiB\n"
        f"{SEED}.soft: 800GiB\n"
        f"{SEED}.hard.min-free-bytes: 10000000\n"
        f"{SEED}.soft.min-free-bytes: 20MB\n"
        f"{SEED}.hard.min-free-percent: 0.05\n"
        f"{SEED}.soft.min-free-percent: 0.15\n"
    )
    found = broker_level(loaded).values
    assert {name: value for name, value in found.items() if name.count("_") > 2} == {
        "storage_hard_consumed_bytes": 900 << 30,
        "storage_soft_consumed_bytes": 800 << 30,
        "storage_hard_min_free_bytes": 10_000_000,
        "storage_soft_min_free_bytes": 20_000_000,
        "storage_hard_min_free_ratio": 0.05,
        "storage_soft_min_free_ratio": 0.15,
    }


@pytest.mark.seed("S4-026")
def test_limits_are_what_was_written_and_0_is_no_limit(load_file: Load) -> None:
    loaded = load_file(
        "storage_hard_min_free_ratio: 29%\nstorage_hard_min_free_bytes: 0\nstorage_soft_consumed_bytes: 5\n"
    )
    found = limits_of(broker_level(loaded))
    assert found.soft == (Limit(LimitType.CONSUMED_BYTES, 5),)
    assert Limits(found.hard).factor(Volume("v", 100, 71)) == 0.0
    assert Limits(found.hard).factor(Volume("v", 100, 70)) == 1.0


@pytest.mark.seed("S4-053")
def test_defaults(load_file: Load) -> None:
    found = broker_level(load_file("on_unknown: {storage_quota: last}\n"))
    assert found.values == {
        "storage_quota": True,
        "storage_stale_after": 300_000,
        "on_unknown.storage_quota": "last",
    }
    assert not limits_of(found)


@pytest.mark.seed("S4-026")
@pytest.mark.parametrize(
    ("text", "ratio"), [("0.05", 0.05), ("'5%'", 0.05), ("12.5%", 0.125), ("0", 0.0), ("1.0", 1.0)]
)
def test_a_share_is_a_ratio_or_has_a_percent_sign(load_file: Load, text: str, ratio: float) -> None:
    found = broker_level(load_file(f"storage_hard_min_free_ratio: {text}\n"))
    assert found.number("storage_hard_min_free_ratio") == ratio


MISTAKES = {
    "percent as ratio": (
        "storage_hard_min_free_ratio: 5",
        "5 as a share of the capacity is 500 %",
        "^ for 5 % write '5%'",
    ),
    "one percent or all": (
        "storage_hard_min_free_ratio: 1",
        "1 as a share of the capacity is 100 %",
        "^ for 1 % write",
    ),
    "over 100 %": (
        "storage_hard_min_free_ratio: 101%",
        "'101%' is not a share of the capacity",
        "write '5%', or",
    ),
    "negative share": (
        "storage_hard_min_free_ratio: -0.1",
        "-0.1 is not a share of the capacity",
        "write '5%', or",
    ),
    "true": ("storage_hard_min_free_ratio: true", "True is not a share of the capacity", "write '5%', or"),
    "negative bytes": ("storage_hard_min_free_bytes: -1", "-1 is negative", "write 0"),
    "soft after hard": (
        "storage_hard_consumed_bytes: 80\nstorage_soft_consumed_bytes: 90",
        "storage_soft_consumed_bytes 90 would be reached after storage_hard_consumed_bytes 80",
        "^ a soft limit must be reached first: make it smaller",
    ),
    "soft after hard, free": (
        f"{SEED}.hard.min-free-bytes: 80\n{SEED}.soft.min-free-bytes: 70",
        "storage_soft_min_free_bytes 70 would be reached after storage_hard_min_free_bytes 80",
        "^ a soft limit must be reached first: make it larger",
    ),
    "soft after hard, share": (
        "storage_soft_min_free_ratio: 5%\nstorage_hard_min_free_ratio: 10%",
        "storage_soft_min_free_ratio 0.05 would be reached after storage_hard_min_free_ratio 0.1",
        "make it larger",
    ),
    "two names": (
        f"{SEED}.hard: 80\nstorage_hard_consumed_bytes: 80",
        f"'{SEED}.hard' and 'storage_hard_consumed_bytes' are the same field",
        "keep one of them",
    ),
    "on_limit": ("on_limit: {storage_quota: reject}", "unknown key 'storage_quota'", ""),
    "stale at once": ("storage_stale_after: 0", "greater than 0", ""),
}


@pytest.mark.seed("S4-027", "S4-026")
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_reported_with_their_place_and_remedy(load_file: Load, name: str) -> None:
    text, message, remedy = MISTAKES[name]
    with pytest.raises(ConfigErrors) as refused:
        load_file(text)
    [error] = refused.value.errors
    assert message in error.message
    assert remedy in error.render()
    wanted = 8 + (text.count("\n") if "soft after" in name and not text.startswith("storage_soft") else 0)
    assert (error.line, error.path.split(".")[:2]) == (wanted, ["policies", "broker"])


def test_equal_limits_are_a_step_and_no_mistake(load_file: Load) -> None:
    load_file("storage_hard_consumed_bytes: 80\nstorage_soft_consumed_bytes: 80\n")


def test_limits_are_for_whole_brokers(load_file: Load, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    load_file("storage_quota: true\n")
    text = file.read_text()
    file.write_text(f"{text}  topics:\n    - name: a\n      storage_hard_min_free_bytes: 5\n")
    with pytest.raises(ConfigErrors) as refused:
        load(file, [StoragePolicies], [TubeConfig], {})
    assert "applies to a whole broker" in refused.value.render()


@pytest.mark.seed("S4-027")
def test_the_store_takes_no_limits_that_contradict_each_other() -> None:
    store, fields = MemoryStore(), PolicyFields.of([StoragePolicies])
    change_beside(store, fields, Level.BROKER, "", {"storage_hard_consumed_bytes": "90"}, "test")
    with pytest.raises(PolicyRefusedError, match="would be reached after storage_hard_consumed_bytes 90"):
        change_beside(store, fields, Level.BROKER, "", {"storage_soft_consumed_bytes": 91}, "test")
    with pytest.raises(PolicyRefusedError, match="500 %"):
        change_beside(store, fields, Level.BROKER, "", {f"{SEED}.soft.min-free-percent": 5}, "test")
    [layer] = store.layers()[1]
    assert {name: setting.value for name, setting in layer.settings.items()} == {
        "storage_hard_consumed_bytes": 90
    }


@pytest.mark.seed("S4-027")
def test_file_and_store_may_contradict_each_other_which_is_found_where_they_meet(load_file: Load) -> None:
    loaded, store = (
        load_file("storage_hard_consumed_bytes: 90\nstorage_soft_consumed_bytes: 80\n"),
        MemoryStore(),
    )
    assert problem_with(broker_level(loaded, store)) == ""
    store.set(Level.BROKER, "", "storage_soft_consumed_bytes", 95, actor="test")
    assert problem_with(broker_level(loaded, store)) == (
        "storage_soft_consumed_bytes 95 would be reached after storage_hard_consumed_bytes 90"
    )


PROMETHEUS = "source: prometheus, url: 'http://p:9090', capacity_query: a"
SOURCES = {
    "no paths": ("{source: path}", "source path needs 'paths'", "paths: [/var/lib/kafka]"),
    "unknown source": ("{source: jmx}", "'jmx' is not valid here", ""),
    "no source": ("{paths: [/]}", "missing key 'source'", "add 'source:'"),
    "no url": ("{source: prometheus, capacity_query: a}", "needs 'url'", "add 'url:'"),
    "no capacity": (
        "{source: prometheus, url: 'http://p'}",
        "needs 'capacity_query'",
        "add 'capacity_query:'",
    ),
    "no usage": (f"{{{PROMETHEUS}}}", "either 'consumed_query' or 'free_query'", "set one of them"),
    "both usages": (
        f"{{{PROMETHEUS}, free_query: b, consumed_query: c}}",
        "either 'consumed_query'",
        "one of them",
    ),
    "no address": (f"{{{PROMETHEUS.replace('http://p:9090', 'p:9090')}, free_query: b}}", "not valid", ""),
    "keys of another": (
        "{source: path, paths: [/], url: 'http://p'}",
        "'url' is for source prometheus",
        "remove it",
    ),
    "Kafka's": (
        "{source: log_dirs}",
        "source log_dirs is supported for Kafka only",
        "write source: path or prometheus",
    ),
    "Kafka's topic": (
        "{source: path, paths: [/], publish_snapshots: t}",
        "'publish_snapshots' is supported for Kafka only",
        "",
    ),
    "too often": ("{source: path, paths: [/], interval: 1ms}", "greater than or equal to 100", ""),
    "a slip": ("{source: path, path: [/]}", "unknown key 'path'", "did you mean 'paths'?"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_lacks_nothing_and_takes_nothing_of_another(load_file: Load, name: str) -> None:
    section, message, remedy = SOURCES[name]
    with pytest.raises(ConfigErrors) as refused:
        load_file("storage_quota: true", f"storage: {section}")
    told = refused.value.render()
    assert message in told
    assert remedy in told
    assert all(
        error.line == 6 and error.path.startswith("brokers.0.storage") for error in refused.value.errors
    )


@pytest.mark.seed("S4-053")
def test_what_a_source_says_by_default(load_file: Load) -> None:
    [entry] = load_file(
        "storage_quota: true", "storage: {source: path, paths: [/data/1, /data/2]}"
    ).config.brokers
    assert entry.storage is not None
    assert (entry.storage.interval, entry.storage.broker_id, entry.storage.forget_after) == (
        60_000,
        "local",
        3_600_000,
    )


def test_the_schema_says_the_same() -> None:
    schema = json_schema([StoragePolicies], [TubeConfig])
    is_valid = jsonschema.Draft202012Validator(schema)
    entry = {"name": "main", "system": "tube", "bootstrap": ["a:1"], "listen": {"port": 0}}
    good: list[dict[str, object]] = [
        {"storage_hard_min_free_ratio": 0.05},
        {"storage_hard_min_free_ratio": "5%"},
        {f"{SEED}.hard.min-free-percent": "12.5 %"},
        {"storage_hard_consumed_bytes": "900GiB"},
        {"on_unknown": {"storage_quota": "open"}, "mode": {"storage_quota": "observe"}},
    ]
    bad: list[dict[str, object]] = [
        {"storage_hard_min_free_ratio": 5},
        {"storage_hard_min_free_ratio": "101%"},
        {"storage_quota": "yes"},
        {"mode": {"storage_hard_consumed_bytes": "observe"}},
    ]
    for policies in good:
        is_valid.validate({"brokers": [entry], "policies": {"broker": policies}})
    for policies in bad:
        with pytest.raises(jsonschema.ValidationError):
            is_valid.validate({"brokers": [entry], "policies": {"broker": policies}})
    assert "storage" in json.dumps(schema)


@pytest.mark.parametrize("value", [None, [], {}, "many", "%", "5 percent", float("nan"), "nan", "1e999"])
def test_no_other_value_is_a_share(value: object) -> None:
    with pytest.raises(ValidationError):
        PolicyFields.of([StoragePolicies]).parse("storage_hard_min_free_ratio", value)


def test_the_example_of_the_document_is_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "kafka")
    document = Path(__file__).parents[3] / "docs" / "storage-quotas.md"
    [shown] = re.findall(r"```yaml\n(.*?)```", document.read_text(), re.DOTALL)
    file = tmp_path / "gateway.yaml"
    file.write_text(shown.replace("# …", "system: kafka\n    bootstrap: ['a:1']\n    listen: {port: 1}"))
    plugins = load_plugins(())
    loaded = load(file, plugins.policy_models, plugins.broker_models, {})
    volume = Volume("v", 1000 << 30, 915 << 30)
    assert limits_of(broker_level(loaded)).factor(volume) == pytest.approx((980 - 915) / (980 - 850))
