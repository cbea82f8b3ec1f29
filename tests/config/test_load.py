"""A whole file: what it says as layers, and every mistake of it in one pass."""

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.load import Loaded, load, parse_file
from sluicegate.config.tree import MAX_BYTES
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import Level, PolicyLayer, Setting, Source, TopicName
from sluicegate.store.sqlite_file import sqlite_path

LoadText = Callable[..., Loaded]
RefuseText = Callable[..., list[Finding]]

LEVELS = """\
policies:
  broker:
    max_publish_rate: 500/s
    max_message_size: 1MiB
  namespaces:
    - name: orders
      max_publish_rate: 50
  topics:
    - name: orders.created
      max_producers_per_topic: 3
"""


def layer(loaded: Loaded, level: Level) -> PolicyLayer:
    [found] = [each for each in loaded.policy_layers if each.level is level]
    return found


def effective(loaded: Loaded, topic: str = "orders.created", namespace: str = "orders") -> dict[str, object]:
    resolver = Resolver(loaded.policies((), 1, "main"), loaded.fields.defaults)
    found = resolver.resolve(TopicName(topic, namespace))
    return dict(found.values)


@pytest.mark.seed("S1-010", "S1-023")
def test_each_level_becomes_a_layer(load_text: LoadText) -> None:
    loaded = load_text(LEVELS)
    assert [(each.level, each.name) for each in loaded.policy_layers] == [
        (Level.BROKER, ""),
        (Level.NAMESPACE, "orders"),
        (Level.TOPIC, "orders.created"),
    ]
    assert effective(loaded) == {
        "max_publish_rate": 50,
        "max_message_size": 2**20,
        "max_producers_per_topic": 3,
    }


@pytest.mark.seed("S1-025", "S1-026")
def test_a_namespace_without_policies_falls_back_to_the_broker_field_by_field(load_text: LoadText) -> None:
    loaded = load_text(LEVELS)
    assert effective(loaded, "bills.paid", "bills") == {"max_publish_rate": 500, "max_message_size": 2**20}


@pytest.mark.seed("S1-022")
def test_settings_know_file_and_line(load_text: LoadText) -> None:
    loaded = load_text(LEVELS)
    assert layer(loaded, Level.BROKER).settings["max_publish_rate"] == Setting(
        500, Source.FILE, "gateway.yaml:8"
    )
    assert layer(loaded, Level.TOPIC).settings["max_producers_per_topic"].location == "gateway.yaml:15"


@pytest.mark.seed("S1-009", "X-01")
def test_zero_null_and_left_out_are_kept_apart(load_text: LoadText) -> None:
    broker = "policies: {broker: {max_publish_rate: 5, max_producers_per_topic: 5}, topics: ["
    zero = load_text(broker + "{name: orders.created, max_publish_rate: 0, max_producers_per_topic: null}]}")
    assert layer(zero, Level.TOPIC).settings.keys() == {"max_publish_rate"}
    values = effective(zero)
    assert values["max_publish_rate"] == 0
    assert values["max_producers_per_topic"] == 5


@pytest.mark.seed("S1-053", "S1-054")
def test_message_size_is_ten_mebibytes_only_where_it_is_unset(load_text: LoadText) -> None:
    assert effective(load_text("")) == {"max_message_size": 10_485_760}
    assert effective(load_text("policies: {broker: {max_message_size: 0}}"))["max_message_size"] == 0


@pytest.mark.seed("S1-143")
def test_a_file_without_policies_sets_nothing(load_text: LoadText) -> None:
    loaded = load_text("")
    assert loaded.policy_layers == ()
    assert not loaded.config.brokers[0].observe_only


@pytest.mark.seed("S1-011", "X-08")
def test_messages_and_bytes_are_separate_and_the_seeds_name_is_an_alias(load_text: LoadText) -> None:
    loaded = load_text("policies: {broker: {max_publish_rate_msg: 10k/s, max_publish_rate_bytes: 1MB/s}}")
    settings = layer(loaded, Level.BROKER).settings
    assert {name: setting.value for name, setting in settings.items()} == {
        "max_publish_rate": 10_000,
        "max_publish_rate_bytes": 1_000_000,
    }
    assert settings["max_publish_rate"].location == "gateway.yaml:6"


@pytest.mark.seed("X-02", "X-03")
def test_options_become_dotted_settings(load_text: LoadText) -> None:
    loaded = load_text(
        "policies:\n  broker:\n    max_publish_rate: 5\n"
        "    on_limit: {max_publish_rate: drop}\n"
        "    on_unknown: {max_subscriptions_per_topic: last}\n"
        "    mode: { max_publish_rate: observe }\n"
    )
    settings = layer(loaded, Level.BROKER).settings
    assert settings["on_limit.max_publish_rate"] == Setting("drop", Source.FILE, "gateway.yaml:9")
    assert settings["on_unknown.max_subscriptions_per_topic"].value == "last"
    assert settings["mode.max_publish_rate"] == Setting("observe", Source.FILE, "gateway.yaml:11")


@pytest.mark.seed("X-07", "S1-144")
def test_one_mode_covers_every_policy_and_a_lower_level_takes_it_back(load_text: LoadText) -> None:
    loaded = load_text("policies: {broker: {mode: observe}, namespaces: [{name: tests, mode: enforce}]}")
    observed = effective(loaded)
    assert {name for name, value in observed.items() if value == "observe"} == {
        f"mode.{name}" for name in loaded.fields.policies
    }
    assert "mode.burst_seconds" not in observed
    enforced = effective(loaded, "tests.a", "tests")
    assert "observe" not in enforced.values()


@pytest.mark.seed("X-09")
def test_ceilings_and_locks_reach_the_layers(load_text: LoadText) -> None:
    loaded = load_text(
        "policies:\n  broker:\n    max_publish_rate: 10\n"
        "    ceiling: {max_publish_rate: 100, max_publish_rate_bytes: 1MiB/s}\n"
        "    locked: [max_publish_rate, ceiling.max_publish_rate]\n"
        "  topics:\n    - {name: orders.created, max_publish_rate: 0}\n"
    )
    broker = layer(loaded, Level.BROKER)
    assert broker.settings["max_publish_rate"].locked
    assert broker.ceilings == {
        "max_publish_rate": Setting(100, Source.FILE, "gateway.yaml:9", locked=True),
        "max_publish_rate_bytes": Setting(2**20, Source.FILE, "gateway.yaml:9"),
    }
    assert effective(loaded)["max_publish_rate"] == 100


def test_only_the_broker_level_has_ceilings_of_what_it_alone_sets(refuse_text: RefuseText) -> None:
    errors = refuse_text(
        "policies:\n"
        "  broker:\n"
        "    connection_rate_limit: 500\n"
        "    ceiling: {connection_rate_limit: 1000}\n"
        "  namespaces:\n"
        "    - {name: orders, ceiling: {connection_rate_limit: 10, max_publish_rate: 5}}\n"
        "  topics:\n"
        "    - {name: orders.created, mode: { connection_rate_limit: observe }}\n"
        "    - {name: orders.audit, on_unknown: {disk: open}}\n"
        "    - {name: orders.a, ceiling: {disk: 5}}\n"
    )
    text, remedy = "applies to a whole broker, not to one", "move it to policies.broker"
    assert [(e.line, e.message, e.remedy) for e in errors] == [
        (11, f"'connection_rate_limit' {text} namespace", f"{remedy}.ceiling"),
        (14, f"'disk' {text} topic", f"{remedy}.on_unknown"),
        (15, "unknown key 'disk'", errors[2].remedy),
    ]
    assert errors[0].path == "policies.namespaces.0.ceiling.connection_rate_limit"


def test_every_mistake_is_found_in_one_pass(refuse_text: RefuseText) -> None:
    errors = refuse_text(
        "brokers:\n"
        "  - name: main\n"
        "    system: kafka\n"
        "    bootstrap: [nowhere]\n"
        "    listen: {port: 70000}\n"
        "    listne: 1\n"
        "  - name: main\n"
        "    system: danbue\n"
        "admn: {}\n"
        "policies:\n"
        "  broker:\n"
        "    max_publish_rate: -1\n"
        "    max_publish_rate_msg: 5\n"
        "    max_message_size: 5GiB\n"
        "    max_producers_per_topic: 1.5\n"
        "    max_producers_per_topic: 2\n"
        "    locked: [burst_seconds, max_nothing]\n"
        "    ceiling: {max_publish_rate: 0, burst_seconds: 1.0}\n"
        "  namespaces:\n"
        "    - connection_rate_limit: 5\n"
        "  topics:\n"
        "    - name: orders.created\n"
        "      max_publish_rte: 500\n"
        "      max_subscriptions_per_topic: true\n"
        "      on_limit: {max_producers_per_topic: drop, burst_seconds: delay}\n"
        "      on_unknown: {max_publish_rate: pause}\n"
        "      mode: often\n"
        "      burst_seconds: .inf\n"
    )
    found = [(e.line, e.message) for e in errors]
    assert found == [
        (4, "'nowhere' is not an address"),
        (5, "must be less than or equal to 65535, got 70000"),
        (6, "unknown key 'listne'"),
        (7, "duplicate name 'main'"),
        (8, "unknown system 'danbue'"),
        (9, "unknown key 'admn'"),
        (12, "-1 is negative"),
        (13, "'max_publish_rate_msg' and 'max_publish_rate' are the same field"),
        (14, "'5GiB' is too large: at most 4294967295B"),
        (15, "1.5 is not a whole number"),
        (16, "duplicate key 'max_producers_per_topic'"),
        (17, "'burst_seconds' is locked but not set here"),
        (17, found[12][1]),
        (18, "a ceiling of 0 (unlimited) limits nothing"),
        (18, "unknown key 'burst_seconds'"),
        (20, "missing key 'name'"),
        (20, "'connection_rate_limit' applies to a whole broker, not to one namespace"),
        (23, "unknown key 'max_publish_rte'"),
        (24, "True is not a whole number"),
        (25, "'drop' is not valid here: expected 'reject'"),
        (25, "unknown key 'burst_seconds'"),
        (26, "unknown key 'max_publish_rate'"),
        (27, "'often' is no mode"),
        (28, "must be less than or equal to 3600, got inf"),
    ]
    assert found[12][1].startswith("'max_nothing' is not valid here")
    by_line = {e.line: e.remedy for e in errors}
    assert by_line[6] == "did you mean 'listen'?"
    assert by_line[8] == "did you mean 'danube'?"
    assert by_line[20] == "move it to policies.broker"
    assert by_line[23] == "did you mean 'max_publish_rate'?"


@pytest.mark.seed("S1-013")
@pytest.mark.parametrize("value", ["-1", "1.5", "true", "4294967296", "a few", "[1]", "{a: 1}", ".nan"])
def test_invalid_values_are_refused_at_every_level(refuse_text: RefuseText, value: str) -> None:
    errors = refuse_text(
        f"policies:\n  broker:\n    max_producers_per_topic: {value}\n"
        f"  namespaces:\n    - name: a\n      max_producers_per_topic: {value}\n"
        f"  topics:\n    - name: a\n      max_producers_per_topic: {value}\n"
    )
    assert [error.line for error in errors] == [8, 11, 14]


def test_drop_is_refused_where_traffic_was_promised_to_arrive(refuse_text: RefuseText) -> None:
    [error] = refuse_text("policies: {broker: {on_limit: {max_publish_rate_bytes: drop}}}")
    assert error.message == "'drop' is not valid here: expected 'delay' or 'reject'"
    assert "acks=0" in error.remedy


def test_two_brokers_on_one_port_are_refused(refuse_text: RefuseText) -> None:
    broker = "  - {{name: {}, system: kafka, bootstrap: ['a:1'], listen: {{port: 5}}}}\n"
    [error] = refuse_text("brokers:\n" + broker.format("a") + broker.format("b"))
    assert error.message == (
        "port 127.0.0.1:5 is used twice: by the listener of broker 'b' and by the listener of broker 'a'"
    )


def test_unknown_exempt_policies_are_refused(refuse_text: RefuseText) -> None:
    [error] = refuse_text(
        "brokers:\n  - name: a\n    system: kafka\n    bootstrap: ['a:1']\n    listen: {port: 5}\n"
        "    exempt: {principals: [admin], policies: [max_message_sise]}\n"
    )
    assert error.remedy == "did you mean 'max_message_size'?"


def test_an_error_is_drawn_with_its_line_and_a_caret(refuse_text: RefuseText) -> None:
    [error] = refuse_text("policies:\n  topics:\n    - name: a\n      max_publish_rte: 500\n")
    assert error.render().replace(error.file, "gateway.yaml") == (
        "error[config]: unknown key 'max_publish_rte'\n"
        "  --> gateway.yaml:9:7  (policies.topics.0.max_publish_rte)\n"
        "9|       max_publish_rte: 500\n"
        " |       ^^^^^^^^^^^^^^^ did you mean 'max_publish_rate'?"
    )


def test_a_long_line_keeps_its_caret_on_the_screen() -> None:
    error = Finding("f", 1, 501, "", "m" * 1_000, "r", "x" * 500 + "HERE" + "y" * 500, 4)
    _, _, source, caret = error.render().splitlines()
    assert len(source) < 160
    assert source[caret.index("^") : caret.rindex("^") + 1] == "HERE"


def test_terminal_escapes_are_not_printed() -> None:
    assert "\x1b" not in Finding("f", 1, 1, "", "\x1b[31m", "", "\x1b[2J").render()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: 1\n\xff\xfe", "is not UTF-8 (byte 5 is 0xff)"),
        (b"#" * (MAX_BYTES + 1), f"is larger than {MAX_BYTES} bytes"),
        (b"- a\n", "expected a mapping (key: value)"),
        (b"just text\n", "expected a mapping (key: value)"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_bytes(data)
    with pytest.raises(ConfigErrors) as refused:
        load(file, (), (), {})
    assert message in refused.value.render()


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as refused:
        load(tmp_path / "none.yaml", (), (), {})
    assert "No such file" in refused.value.render()


def test_plugin_modules_are_found_before_the_file_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("plugins: [acme.policies, 5]\nnonsense: 1\n")
    assert parse_file(file, {}).plugin_modules == ("acme.policies",)
    assert parse_file(file, {"SLUICEGATE__PLUGINS": "[other]"}).plugin_modules == ("other",)


def test_the_digest_changes_with_text_and_environment(load_text: LoadText) -> None:
    first = load_text("").text_digest
    assert load_text("").text_digest == first
    assert load_text("# comment\n").text_digest != first
    assert load_text("", {"SLUICEGATE__ADMIN__PORT": "1"}).text_digest != first
    assert load_text("", {"HOME": "/"}).text_digest == first


def test_what_a_worker_needs_can_be_sent_to_its_process(load_text: LoadText) -> None:
    loaded = load_text(LEVELS)
    snapshot = loaded.policies((), 7, "main")
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    assert pickle.loads(pickle.dumps(loaded.config.admin)) == loaded.config.admin


def test_a_snapshot_holds_file_and_store_and_who_is_exempt(load_text: LoadText) -> None:
    loaded = load_text(
        "brokers:\n  - name: main\n    system: kafka\n    bootstrap: ['a:1']\n    listen: {port: 5}\n"
        "    observe_only: true\n"
        "    exempt: {principals: [admin], policies: [max_message_size]}\n"
        "policies: {broker: {max_publish_rate: 5}}\n"
    )
    stored = PolicyLayer(Level.BROKER, "", {"max_publish_rate": Setting(9, Source.STORE, "store version 1")})
    snapshot = loaded.policies((stored,), 3, "main")
    assert (snapshot.version, snapshot.observe_only) == (3, True)
    assert snapshot.exempt_principals == {"admin"}
    assert snapshot.exempt_policies == {"max_message_size"}
    assert Resolver(snapshot, {}).resolve(TopicName("a", "default")).values["max_publish_rate"] == 9
    with pytest.raises(KeyError, match="other"):
        loaded.policies((), 3, "other")


@pytest.mark.parametrize("name", ["st%41te", "50 %", "zustand/öffentlich?#"])
def test_the_default_store_is_in_the_state_directory_whatever_its_name(
    load_text: LoadText, name: str
) -> None:
    config = load_text(f"state_dir: '{name}'").config
    assert sqlite_path(config.store_url) == f"{name}/policies.db"
