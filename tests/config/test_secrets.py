"""No secret of a file is ever shown, however the file is written and whatever is wrong with it."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from sluicegate.config.errors import Finding, render
from sluicegate.config.fields import PolicyFields, models_in
from sluicegate.config.json_schema import json_schema
from sluicegate.config.load import file_model, load, read
from sluicegate.config.secrets import resembles_secret, shown_key, shown_text
from sluicegate.runtime.plugins import Plugins, load_plugins
from sluicegate.runtime.policies_in_force import PolicyWatch

MARKS = ("Hunter2Zq9", "90817263544")
KEYS = (
    "password", "pasword", "passwrod", "passwort", "Password", "PASSWD", "pwd", "psw",
    "token", "tokn", "toekn", "bearer_token", "secret", "secert", "client-secret", "sasl.pasword", "apiKey",
    "credentials", "authorization",
)  # fmt: skip
HEAD = """\
brokers:
  - name: main
    system: kafka
    bootstrap: ["127.0.0.1:9092"]
    listen: {port: 19092}
"""
# KEY and MARK are filled in; what stands in a line of its own is one line of a broker's entry.
SHAPES = (
    "    identity:\n      username: gate\n      KEY: MARK\n",
    "    identity:\n      username: gate\n      'KEY': \"MARK\"\n",
    "    identity:\n      username: gate\n      KEY:MARK\n",
    "    identity: {username: gate, KEY: MARK}\n",
    "    identity: {KEY: MARK, usernme: gate, mechanism: 5}\n",
    "    identity: {KEY: 'MARK', KEY: MARK}\n",
    "    identity: {a: 1, a: 2, KEY:\n      MARK, b: 1, b: 2}\n",
    "    identity: {KEY:MARK}\n",
    "    identity: {KEY MARK}\n",
    "    identity:\n      KEY:\n        MARK\n      KEY: 5\n",
    "    identity:\n      KEY: |\n        one\n        MARK\n      mechanism: 5\n",
    '    identity:\n      KEY: "one\n\n  MARK two"\n      mechanism: 5\n',
    "    identity:\n      KEY: [MARK, {a: MARK}]\n",
    "    identity:\n      KEY: {MARK: 1, MARK: 2}\n",
    "    identity:\n      KEY: {a: MARK, max_hold: x}\n",
    "    identity:\n      KEY: *MARK\n",
    "    identity:\n      KEY: !MARK x\n",
    "    identity:\n      KEY: &MARK [x\n",
    "    identity:\n      ? KEY\n      : MARK\n      mechanism: 5\n",
    "    identity:\n      KEY:\n\tMARK\n",
    "    identity:\n      - KEY: MARK\n",
    "    identity:\n      - KEY=MARK\n",
    "    identity: KEY=MARK\n",
    "    identity: # KEY: MARK\n",
    "    bootstrap: [{KEY: MARK}]\n",
    "    max_hold: {KEY: MARK}\n",
    "    listen: {port: {KEY: MARK}}\n",
    "    quotas: [{principal: a, messages: {KEY: [MARK]}}]\n",
    "    pressure: {memory: [{source: gateway, KEY: MARK}]}\n",
)
# What tells that these are secrets is more than a key, so they are taken as they are.
WHOLE = (
    "    aliases: &a [x: &m MARK, x: 2]\n    identity: {KEY: *m}\n    tls: {a: 1, a: 1}\n",
    "    pressure: {memory: [{source: metrics, url: 'http://u:MARK@host:1/m?KEY=MARK', used: 1}]}\n",
    "    bootstrap: 'gate:MARK@host:9092'\n",
    "store: postgres://gate:MARK@db/policies?sslpassword=MARK\n",
    "    kennwort: MARK\n",
    "    kennwort: {a: MARK,\n      b: MARK}\n    idel_timeout: 5x\n",
)
MORE = (
    "",
    "policies:\n  broker: {KEY: MARK, max_publish_rte: 5}\n",
    "policies:\n  topics:\n    - {name: a, max_publish_rate: {KEY: MARK}, KEY: MARK}\n",
    "admin: {port: x, KEY: MARK}\n",
    "brokers: []\n",
    "plugins: [a, b\n",
)
VARIABLES = (
    ("BROKERS__0__IDENTITY__KEY", "MARK"),
    ("BROKERS__0__IDENTITY__KEY", "[MARK, {a: MARK"),
    ("BROKERS__0__IDENTITY__KEY__A", "MARK"),
    ("BROKERS__0__IDENTITY__KEY__", "MARK"),
    ("BROKERS__9__IDENTITY__KEY", "MARK"),
    ("BROKERS__0__IDENTITY", "{username: gate, KEY: MARK}"),
    ("BROKERS__0__IDENTITY", "{username: gate, KEY: MARK"),
    ("BROKERS__0__MAX_HOLD", "{KEY: MARK}"),
    ("KENNWORT", "MARK"),
    ("__KEY", "MARK"),
    ("STATE_DIR__KEY", "MARK"),
)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins(())


@st.composite
def files(draw: st.DrawFn) -> tuple[str, str, dict[str, str]]:
    """A mark, a file that has it as a secret, with more or less damage, and variables that override it."""
    mark, key = draw(st.sampled_from(MARKS)), draw(st.sampled_from(KEYS))
    parts = draw(st.lists(st.sampled_from(SHAPES), max_size=2, unique=True))
    whole = draw(st.sampled_from(("", "", "", *WHOLE)))
    text = HEAD + (whole or "".join(parts) + draw(st.sampled_from(MORE)))
    if not whole and draw(st.booleans()):
        at = draw(st.sampled_from([at for at in range(len(text)) if not _in_word(text, at)]))
        text = text[:at] + draw(st.sampled_from(["", *"[]{}:,\"'&*!|>%@\t\n#-?\x00"])) + text[at + 1 :]
    chosen = draw(st.lists(st.sampled_from(VARIABLES), max_size=1))
    environ = {f"SLUICEGATE__{name.replace('KEY', key.upper())}": value for name, value in chosen}
    filled = {name: value.replace("KEY", key).replace("MARK", mark) for name, value in environ.items()}
    return mark, text.replace("KEY", key).replace("MARK", mark), filled


def _in_word(text: str, at: int) -> bool:
    """Whether a place is within one of the words that are filled in."""
    return any(text.startswith(word, at - shift) for word in ("KEY", "MARK") for shift in range(len(word)))


def told(findings: tuple[Finding, ...]) -> Iterator[str]:
    """Everything that any command or log makes of findings."""
    yield render(findings)
    yield json.dumps([finding.as_json() for finding in findings])
    yield from (finding.in_a_line() for finding in findings)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files())
@example(("hunter2", HEAD + "    identity: {username: a, pasword: hunter2}\n", {}))
def test_no_secret_is_shown(
    tmp_path_factory: pytest.TempPathFactory, plugins: Plugins, given_file: tuple[str, str, dict[str, str]]
) -> None:
    mark, text, environ = given_file
    file = tmp_path_factory.getbasetemp() / "secrets.yaml"
    file.write_text(text, encoding="utf-8")
    reading = read(file, plugins.policy_models, plugins.broker_models, environ)
    for output in told(reading.findings):
        assert mark not in output, output


def test_excerpts_end_where_a_secret_begins(tmp_path: Path, plugins: Plugins) -> None:
    text = HEAD + "    identity: {usernme: gate, pasword: Hunter2Zq9, mechansm: 5}\n"
    output = next(told(_read(tmp_path, plugins, text)))
    assert "identity: {usernme: gate, pasword: ***\n" in output
    assert "did you mean 'password'?" in output
    assert "did you mean 'mechanism'?" in output, "the mistake behind the secret is told, without its line"


def test_a_file_that_is_no_yaml_shows_lines_only_if_it_has_no_secret(
    tmp_path: Path, plugins: Plugins
) -> None:
    wrong = HEAD + "state_dir: C: data\n"
    shown = next(told(_read(tmp_path, plugins, "# token: Hunter2Zq9\n" + wrong)))
    hidden = next(told(_read(tmp_path, plugins, "token: Hunter2Zq9\n" + wrong)))
    assert "state_dir: C: data" in shown
    assert "state_dir: C: data" not in hidden
    assert "mapping values are not allowed" in hidden
    assert "gateway.yaml:7:13" in hidden


def test_values_of_known_keys_are_shown(tmp_path: Path, plugins: Plugins) -> None:
    text = HEAD + "    idle_timeot: 5x\npolicies:\n  broker:\n    max_publish_rte: 500\n"
    output = next(told(_read(tmp_path, plugins, text)))
    assert "idle_timeot: 5x" in output
    assert "max_publish_rte: 500" in output


def test_errors_of_pydantic_contain_no_input(plugins: Plugins) -> None:
    model = next(model for model in plugins.broker_models if "identity" in model.model_fields)
    with pytest.raises(ValidationError) as raised:
        model.model_validate({"name": "a", "identity": {"username": 5, "password": "Hunter2Zq9", "tls": 1}})
    assert "Hunter2Zq9" not in str(raised.value)


def test_models_do_not_print_secrets(plugins: Plugins) -> None:
    """A configuration that gets into a log or a traceback as a whole must tell none of them."""
    seen = 0
    waiting: list[type[BaseModel]] = [
        file_model(PolicyFields.of(plugins.policy_models), plugins.broker_models)
    ]
    known = set(waiting)
    while waiting:
        for name, info in waiting.pop().model_fields.items():
            if resembles_secret(name):
                seen += 1
                assert not info.repr, f"{name} needs Field(repr=False)"
            found = set(models_in(info.annotation)) - known
            known |= found
            waiting += found
    assert seen >= 5, "the search has lost its way"


@pytest.mark.parametrize(
    "key", ["pasword", "PASSWD", "pswd", "tokn", "client_secert", "sasl.pasword", "api-key"]
)
def test_misspelled_keys_of_secrets_are_recognised(key: str) -> None:
    assert resembles_secret(key)
    assert shown_key(key) == key


def test_known_keys_do_not_look_like_secrets(plugins: Plugins) -> None:
    schema = json.dumps(json_schema(plugins.policy_models, plugins.broker_models))
    names = set(re.findall(r'"([a-z_]+)": \{', schema))
    assert len(names) > 100
    assert {name for name in names if resembles_secret(name)} == {"password", "token"}


def test_a_value_that_sticks_to_its_key_is_not_shown() -> None:
    assert shown_key("password:Hunter2Zq9") == shown_key("passwordhunter2") == "***"
    assert shown_text("http://gate:Hunter2Zq9@host/m?key=Hunter2Zq9") == "http://***@host/m?***"
    assert shown_text("redis://gate:pw123@host") == "redis://***@host", "a password that looks like a key"
    assert shown_text("User:alice@EXAMPLE.COM") == "User:alice@EXAMPLE.COM"


def test_a_gateway_that_reads_a_broken_file_again_logs_no_secret(
    tmp_path: Path, plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "gateway.yaml"
    state = f"state_dir: {tmp_path}\nstore: 'memory:'\n"
    file.write_text(HEAD + state)
    watch = PolicyWatch(file, load(file, plugins.policy_models, plugins.broker_models, {}), plugins, {})
    with caplog.at_level(logging.DEBUG):
        for shape in (*SHAPES, *WHOLE[:1], *MORE[1:]):
            for mark in MARKS:
                file.write_text(HEAD + shape.replace("KEY", "pasword").replace("MARK", mark))
                watch.check(force=True)
    watch.close()
    assert len(caplog.records) >= len(SHAPES)
    assert not any(mark in caplog.text for mark in MARKS)


def _read(folder: Path, plugins: Plugins, text: str) -> tuple[Finding, ...]:
    file = folder / "gateway.yaml"
    file.write_text(text, encoding="utf-8")
    return read(file, plugins.policy_models, plugins.broker_models, {}).findings
