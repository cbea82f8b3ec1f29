"""Which driver serves the system of a method map, and the options of its entry."""

import base64
import json
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from tests.gateway.lab import module_path
from tests.grpc.driver import courier

from sluicegate import hookimpl
from sluicegate.cli import main
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.load import load
from sluicegate.embedded import PolicyEngine
from sluicegate.model import Level, Method, MethodMap, Role, TopicName
from sluicegate.runtime.plugins import CHOICE, PluginError, Plugins, load_plugins
from sluicegate_danube.plugin import DanubeDriver
from sluicegate_grpc.driver import GrpcDriver
from sluicegate_grpc.proxy.bearer import bearer_principal
from sluicegate_grpc.proxy.front import GrpcFront

METHODS = courier.sluicegate_method_map()
FILE = """\
brokers:
  - name: post
    system: courier
    bootstrap: ["127.0.0.1:6650"]
    listen: {port: 6651}
"""


@pytest.fixture(autouse=True)
def only_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "grpc")


def giving(**methods: Method) -> SimpleNamespace:
    """A plugin with a map of `courier`."""
    named = {f"/courier.Post/{name}": method for name, method in methods.items()}
    return SimpleNamespace(sluicegate_method_map=hookimpl(lambda: MethodMap("courier", named)))


def read(tmp_path: Path, plugins: Plugins, more: str = "") -> Any:
    """The entry of a file."""
    file = tmp_path / "gateway.yaml"
    file.write_text(FILE + more)
    [entry] = load(file, plugins.policy_models, plugins.broker_models, {}).config.brokers
    return entry


def refused(tmp_path: Path, plugins: Plugins) -> str:
    """The only mistake that is found in the file."""
    with pytest.raises(ConfigErrors) as caught:
        read(tmp_path, plugins)
    [error] = caught.value.errors
    return error.render()


# -- which driver ---------------------------------------------------------------------------------


def test_a_map_alone_makes_a_driver_of_its_system() -> None:
    plugins = load_plugins((), [courier])
    driver = plugins.drivers["courier"]
    assert isinstance(driver, GrpcDriver)
    assert driver.methods is plugins.method_maps["courier"]


def test_a_driver_of_the_system_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "danube,grpc")
    plugins = load_plugins(())
    assert type(plugins.drivers["danube"]) is DanubeDriver
    assert set(plugins.drivers) == set(plugins.method_maps) == {"danube"}


def test_another_plugin_may_make_the_driver_whenever_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(GrpcDriver):
        pass

    own = SimpleNamespace(sluicegate_grpc_driver=hookimpl(lambda methods: Own(methods)))
    assert type(load_plugins((), [courier, own]).drivers["courier"]) is Own
    # As an entry point whose name comes first, so that it is loaded before the one for all maps.
    monkeypatch.setattr(EntryPoint, "load", lambda self: own if self.name == "a" else courier)
    points = [EntryPoint(name, "", "sluicegate.plugins") for name in ("a", "courier")]
    monkeypatch.setattr("sluicegate.runtime.plugins.entry_points", lambda group: EntryPoints(points))
    monkeypatch.delenv(CHOICE)
    import sluicegate_grpc.plugin

    found = load_plugins((), [sluicegate_grpc.plugin]).drivers["courier"]
    assert type(found) is Own


def test_the_last_of_two_maps_for_a_system_wins() -> None:
    second = giving(Send=Method(Role.PUBLISH, topic=(4,), payload=(5,)))
    assert load_plugins((), [courier, second]).method_maps["courier"].methods.keys() == {courier.SEND}


@pytest.mark.parametrize(
    ("hook", "give", "told"),
    [
        ("sluicegate_method_map", lambda: None, r"sluicegate_method_map gave None, expected a MethodMap"),
        ("sluicegate_method_map", lambda: 1 / 0, r"sluicegate_method_map raised ZeroDivisionError"),
        ("sluicegate_grpc_driver", lambda: 1 / 0, r"sluicegate_grpc_driver raised .* for 'courier'"),
    ],
)
def test_the_error_names_a_plugin_without_map_or_driver(hook: str, give: Any, told: str) -> None:
    plugin = SimpleNamespace(**{hook: hookimpl(give)})
    with pytest.raises(PluginError, match=rf"plugin 'types.SimpleNamespace': {told}"):
        load_plugins((), [courier, plugin])


def test_without_the_extra_an_entry_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(GrpcDriver.extra.modules, "no_such_module", "hpack")
    plugins = load_plugins((), [courier])
    assert "courier" not in plugins.drivers
    error = refused(tmp_path, plugins)
    assert "hpack is not installed" in error
    assert "pip install 'sluicegate[grpc]'" in error
    assert {info.name for info in plugins.overview()} >= {courier.__name__}  # its other hooks go on


def test_an_engine_in_a_server_reads_names_and_the_map_of_the_same_entry(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(FILE + f"state_dir: {tmp_path}\ndecisions: {{enabled: false}}\n")
    with PolicyEngine.from_file(file, plugins=[courier]) as engine:
        assert engine.method_map() == METHODS
        assert engine.gate("parcels.eu", False, 0).topic.namespace == "parcels"


# -- the entry ------------------------------------------------------------------------------------


def test_an_entry_has_the_keys_of_grpc_brokers(tmp_path: Path) -> None:
    more = (
        "    ghost_release: 10s\n    size_of: message\n    principals: bearer\n"
        "    unknown_methods: {courier.Post: pass}\n    http2: {max_streams: 7}\n"
        "    request_metadata: {put: {x-gate: here}}\n"
    )
    plugins = load_plugins((), [courier])
    entry = read(tmp_path, plugins, more)

    assert (entry.system, entry.addresses) == ("courier", (("127.0.0.1", 6650),))
    front: Any = plugins.drivers["courier"].front(entry)
    assert isinstance(front, GrpcFront)
    assert front._methods == METHODS.sized_by("message")
    assert front._principal is bearer_principal


def test_clients_are_anonymous_unless_the_entry_says_otherwise(tmp_path: Path) -> None:
    plugins = load_plugins((), [courier])
    front: Any = plugins.drivers["courier"].front(read(tmp_path, plugins))
    assert front._principal is None
    assert front._methods is METHODS or front._methods == METHODS
    assert front.counters() == {}


@pytest.mark.parametrize(
    ("method", "told"),
    [
        (Method(Role.PUBLISH, payload=(2,)), "/courier.Post/Odd: role PUBLISH lacks "),
        (Method(Role.LOOKUP, topic=(1,)), "/courier.Post/Odd: role LOOKUP leads clients to other brokers"),
    ],
)
def test_a_map_that_the_gateway_cannot_enforce_is_refused_at_its_line(
    tmp_path: Path, method: Method, told: str
) -> None:
    error = refused(tmp_path, load_plugins((), [giving(Odd=method)]))
    assert f"cannot serve system 'courier': method map of 'courier': {told}" in error
    assert "gateway.yaml:3:" in error


def test_the_schema_has_the_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", module_path())
    file = tmp_path / "gateway.yaml"
    file.write_text(FILE + "plugins: [tests.grpc.driver.courier]\n")
    result = CliRunner().invoke(main, ["schema", "-c", str(file)])
    entry = json.loads(result.output)["$defs"]["CourierEntry"]
    assert {"system", "http2", "principals", "unknown_methods"} <= entry["properties"].keys()


# -- names, principals, capabilities --------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "namespace"),
    [("parcels.eu", "parcels"), ("/parcels/eu", "parcels"), ("parcels", "default"), (".eu", "default")],
)
def test_namespaces_are_read_as_those_of_a_service(topic: str, namespace: str) -> None:
    driver = GrpcDriver(METHODS)
    assert driver.name_of(topic, None) == TopicName(topic, namespace)
    assert driver.config_model.model_fields["principals"].default == "anonymous"
    listen = {"port": 2}
    entry = driver.config_model.model_validate(
        {"name": "post", "system": "courier", "bootstrap": ["127.0.0.1:1"], "listen": listen}
    )
    assert entry.rule_of_names(Level.TOPIC, topic) == ""


def token(content: object) -> list[tuple[str, str]]:
    body = base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()
    return [("authorization", f"Bearer e30.{body}.")]


def test_a_principal_is_the_subject_of_its_token() -> None:
    assert bearer_principal(token({"sub": "anna", "principal_name": "bert"})) == "anna"
    assert bearer_principal(token({"principal_name": "bert"})) is None
    assert bearer_principal(token({"sub": 7})) is None
    assert bearer_principal(token("sub")) is None
    assert bearer_principal([]) is None


def test_policies_without_a_method_are_not_applicable() -> None:
    of_both = GrpcDriver(METHODS).capabilities
    assert of_both.keys() == DanubeDriver.capabilities.keys()
    assert of_both["max_producers_per_topic"] == of_both["fixed_delivery_delay"] == "emulated"
    assert of_both["max_unacked_messages_per_consumer"] == "not applicable"

    send = Method(Role.PUBLISH, topic=(1,), payload=(2,))
    held = {
        name
        for name, how in GrpcDriver(MethodMap("x", {"/x.X/Send": send})).capabilities.items()
        if how == "emulated"
    }
    assert held >= {"max_message_size", "max_publish_rate", "storage_quota"}
    assert not held & {"max_producers_per_topic", "max_dispatch_rate", "connection_rate_limit"}


def test_check_says_which_policies_do_nothing(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    policies = "policies: {topics: [{name: parcels.eu, max_unacked_messages_per_consumer: 5}]}\n"
    file.write_text(FILE + f"state_dir: {tmp_path}\nplugins: [tests.grpc.driver.courier]\n" + policies)
    result = CliRunner().invoke(main, ["check", str(file)])
    assert "'max_unacked_messages_per_consumer' is not applicable to courier" in result.output
