"""Environment variables override the file."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.config.environment import override
from sluicegate.config.errors import Finding
from sluicegate.config.load import Loaded
from sluicegate.config.tree import parse
from sluicegate.model import Level

LoadText = Callable[..., Loaded]
RefuseText = Callable[..., list[Finding]]


def test_a_variable_overrides_adds_and_appends(load_text: LoadText) -> None:
    loaded = load_text(
        "admin: {port: 1}\n",
        {
            "SLUICEGATE__ADMIN__PORT": "9100",
            "SLUICEGATE__LOG__LEVEL": "debug",
            "SLUICEGATE__BROKERS__0__BOOTSTRAP": '["b:2", "c:3"]',
            "SLUICEGATE__BROKERS__0__BOOTSTRAP__2": "d:4",
            "SLUICEGATE__STORE": "",
            "SLUICEGATE_LOAD_PLUGINS": "not an override",
        },
    )
    assert loaded.config.admin.port == 9100
    assert loaded.config.log.level == "debug"
    assert [str(each) for each in loaded.config.brokers[0].bootstrap] == ["b:2", "c:3", "d:4"]
    assert loaded.config.store_url == "sqlite:///var/sluicegate/policies.db"


def test_a_policy_from_the_environment_says_so(load_text: LoadText) -> None:
    name = "SLUICEGATE__POLICIES__BROKER__MAX_PUBLISH_RATE"
    [layer] = load_text("", {name: "500/s"}).policy_layers
    assert layer.level is Level.BROKER
    assert layer.settings["max_publish_rate"].value == 500
    assert layer.settings["max_publish_rate"].location == name


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SLUICEGATE__ADMIN__PORTT", "1", "unknown key 'portt'"),
        ("SLUICEGATE__ADMIN__PORT", "many", "expected a whole number, got 'many'"),
        ("SLUICEGATE__ADMIN__PORT__X", "1", "no section can contain 'x'"),
        ("SLUICEGATE__ADMIN__PORT", "[1", "not YAML: while parsing a flow sequence"),
        ("SLUICEGATE__BROKERS__7__NAME", "x", "'7' is not an entry of the list"),
        ("SLUICEGATE__BROKERS__MAIN__NAME", "x", "'main' is not an entry of the list"),
        ("SLUICEGATE__", "1", "'SLUICEGATE__' names no value"),
        ("SLUICEGATE__A____B", "1", "'SLUICEGATE__A____B' names no value"),
        ("SLUICEGATE__ADMIN__HOST", "\udc80", "not YAML: "),
    ],
)
def test_a_variable_that_does_not_fit_is_named(
    refuse_text: RefuseText, name: str, value: str, message: str
) -> None:
    [error] = refuse_text("admin: {port: 5}\n", {name: value})
    assert error.file == name
    assert error.message.startswith(message)


def test_an_aliased_section_is_overridden_in_one_place_only() -> None:
    root = parse("a: &x {p: 1}\nb: *x\n", "f", [])
    changed = override(root, {"SLUICEGATE__A__P": "2"}, [])
    assert changed.plain() == {"a": {"p": 2}, "b": {"p": 1}}
    assert root.plain() == {"a": {"p": 1}, "b": {"p": 1}}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.dictionaries(
        st.text("ABPOLICES_0", max_size=20).map("SLUICEGATE__".__add__), st.text("a1[]{}:,- \n", max_size=8)
    )
)
def test_any_environment_is_applied_or_refused(environ: dict[str, str]) -> None:
    errors: list[Finding] = []
    override(parse("brokers: [{name: a}]\na: 1\n", "f", []), environ, errors)
    assert all(error.file in environ for error in errors)
