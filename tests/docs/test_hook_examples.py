"""Each example of docs/hooks.md loads as a plugin, and its hook does what it says."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from sluicegate.budgets import MemoryBudgetStore
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import Budgets
from sluicegate.decisions import RefusalJournal
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import TopicState
from sluicegate.model import (
    Action,
    Decision,
    Level,
    Method,
    Operation,
    OperationKind,
    Outcome,
    Reason,
    Role,
    TopicName,
)
from sluicegate.testing import ManualContext, build_gate, load_plugin, plugin_manager

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "hooks"


def example(name: str) -> ModuleType:
    """The example, once it has been accepted as a plugin."""
    plugin = load_plugin(EXAMPLES / f"{name}.py")
    assert plugin_manager([plugin]).get_hookcallers(plugin)
    return plugin


def test_hook_sluicegate_policy_model() -> None:
    plugin = example("policy_model")
    manager = plugin_manager([plugin], builtin=False)

    fields = PolicyFields.of(manager.hook.sluicegate_policy_model())

    assert fields.policies == ("topic_prefix",)
    assert fields.parse("topic_prefix", "eu.") == "eu."
    gate = build_gate({"topic_prefix": "eu."}, [plugin], now_ns=0)
    assert gate.policies.text("topic_prefix", "") == "eu."


def test_hook_sluicegate_policy_checks() -> None:
    private = TopicName("private-anna.notes", "private-anna")
    gate = build_gate({}, [example("policy_checks")], now_ns=0, topic=private)

    def attach(principal: str) -> Decision | None:
        op = Operation(OperationKind.ATTACH_PRODUCER, private.full, principal, producer=principal)
        return gate.decide(op, 0)

    assert attach("User:anna") is None
    refused = attach("User:bert")
    assert refused is not None
    assert refused.action is Action.REJECT
    assert refused.text.startswith("Topic private-anna.notes is private to User:anna.")
    assert not build_gate({}, [example("policy_checks")], now_ns=0, builtin=False).asks(
        OperationKind.ATTACH_PRODUCER
    )


def test_hook_sluicegate_policy_checks_of_creations() -> None:
    plugin = example("topics_per_namespace")

    def create(name: str) -> Decision | None:
        topic = TopicName(name, "orders")
        gate = build_gate({"max_topics_per_namespace": 2}, [plugin], now_ns=0, topic=topic)
        return gate.decide(Operation(OperationKind.CREATE_TOPIC, name), 0)

    assert create("orders.a") is create("orders.b") is create("orders.a") is None
    refused = create("orders.c")
    assert refused is not None
    assert refused.text.startswith("Namespace orders has 2 new topics, Limit: 2.")
    assert not build_gate({}, [plugin], now_ns=0).asks(OperationKind.CREATE_TOPIC)


def test_hook_sluicegate_delay_rule() -> None:
    plugin = example("delay_rule")
    retry = TopicName("orders.retry", "orders")

    by_name = build_gate({}, [plugin], now_ns=0, topic=retry).delay
    by_policy = build_gate({"fixed_delivery_delay": "5s"}, [plugin], now_ns=0, topic=retry).delay

    assert by_name is not None
    assert by_name.fixed_ms == 60_000
    assert by_policy is not None
    assert by_policy.fixed_ms == 5_000
    assert build_gate({}, [plugin], now_ns=0).delay is None


def test_hook_sluicegate_method_map() -> None:
    [found] = plugin_manager([example("method_map")]).hook.sluicegate_method_map()

    assert found.system == "mailroom"
    assert found.methods["/mailroom.Mail/Send"] == Method(Role.PUBLISH, topic=(1,), payload=(2,))


def test_hook_sluicegate_grpc_driver() -> None:
    methods = example("method_map").sluicegate_method_map()
    ask = plugin_manager([example("grpc_driver")]).hook.sluicegate_grpc_driver
    driver = ask(methods=methods)

    assert (driver.system, driver.methods) == ("mailroom", methods)
    assert driver.name_of("eu:orders", None).namespace == "eu"
    assert driver.name_of("orders", None).namespace == "default"
    assert ask(methods=replace(methods, system="other")) is None


def test_hook_sluicegate_broker() -> None:
    [driver] = plugin_manager([example("broker")]).hook.sluicegate_broker()

    config = driver.config_model(
        name="main", system="redpanda", bootstrap=["127.0.0.1:9092"], listen={"port": 19092}
    )
    assert driver.system == config.system == "redpanda"
    assert driver.name_of("orders-eu", config).namespace == "orders"
    assert driver.name_of("orders", config).namespace == "default"
    assert driver.front(config) is not None


def test_hook_sluicegate_metadata_store() -> None:
    hook = plugin_manager([example("metadata_store")]).hook.sluicegate_metadata_store

    assert hook(url="sqlite:///x.db") is None
    _, [layer] = hook(url="fixed:orders.eu=500").layers()
    assert (layer.level, layer.name) == (Level.TOPIC, "orders.eu")
    assert layer.settings["max_publish_rate"].value == 500


def test_hook_sluicegate_budget_store() -> None:
    hook = plugin_manager([example("budget_store")]).hook.sluicegate_budget_store
    settings = Budgets(url="host:")

    assert hook(url="other:", settings=settings, holder="h") is None
    store = hook(url="host:", settings=settings, holder="h")
    assert isinstance(store, MemoryBudgetStore)


def test_hook_sluicegate_decisions() -> None:
    plugin = example("decisions")
    rows = [("a", "reject"), ("a", "reject"), ("b", "delay"), ("c", "would_reject"), ("d", "reject")]

    plugin_manager([plugin]).hook.sluicegate_decisions(
        batch=[{"client": client, "action": action} for client, action in rows]
    )

    assert plugin.refused == {"a": 2, "d": 1}


def test_hook_sluicegate_commands(tmp_path: Path) -> None:
    [[command]] = plugin_manager([example("commands")]).hook.sluicegate_commands(open_policies=None)
    journal = RefusalJournal(tmp_path, "kafka", "main")
    reason = Reason("max_message_size", Outcome.INVALID, "Message size 9 exceeds maximum allowed 8", 9, 8)
    decision = Decision(Action.REJECT, (reason,), id="abcd-1")
    gate = build_gate({}, now_ns=0)
    journal.record([(0, gate, OperationKind.PUBLISH, "User:anna", "app@h:1", "", 1, 9, decision)], 0, 0)
    journal.close()

    result = CliRunner().invoke(command, [str(tmp_path), "app"])

    assert command.name == "last-refusal"
    assert result.exit_code == 0
    assert "Message size 9 exceeds maximum allowed 8" in result.output


def test_hook_sluicegate_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(bytes(2**20))

    [found] = plugin_manager([example("demo")]).hook.sluicegate_demo(
        directory=tmp_path, systems=("kafka",), plain=True
    )

    assert found == []
    assert capsys.readouterr().out == f"\n{tmp_path} takes 1.0 MiB\n"


def test_hook_sluicegate_quota() -> None:
    hook = plugin_manager([example("quota")]).hook.sluicegate_quota

    assert hook(principal="User:batch-7", context=ManualContext()) == Quota(0, 2 * 2**20, "batch")
    assert hook(principal="User:anna", context=ManualContext()) is None


def test_hook_sluicegate_quota_factors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = example("quota_factors")
    monkeypatch.setattr(plugin, "FILE", tmp_path / "freeze")
    context, op = (
        ManualContext(),
        Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=9, largest=9),
    )
    context.add(plugin.sluicegate_quota_factors(context))
    [task] = plugin.sluicegate_tasks(context)
    gate = build_gate({}, now_ns=0, context=context)

    for exists in (False, True, False):
        (tmp_path / "freeze").touch() if exists else (tmp_path / "freeze").unlink(missing_ok=True)
        asyncio.run(task.run())
        decision = gate.publish(op, 0)
        assert (decision is not None) is exists
        if decision is not None:
            assert decision.text.startswith("Publishing is paused by freeze for topic orders.eu: ")
            assert decision.text.endswith("freeze exists. Wait until the freeze is over.")


def test_hook_sluicegate_pressure_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = example("pressure_sources")
    monkeypatch.setattr(plugin, "MEMINFO", tmp_path / "meminfo")
    (tmp_path / "meminfo").write_text("MemTotal:  400 kB\nMemFree:  1 kB\nMemAvailable:  100 kB\n")

    [source] = plugin.sluicegate_pressure_sources(ManualContext())

    assert (source.name, source.kind) == ("machine", "memory")

    async def read() -> object:
        return await source.read()

    assert asyncio.run(read()) == 0.75


def test_hook_sluicegate_tasks() -> None:
    context = ManualContext()
    busy = TopicState(TopicName("orders.eu", "orders"), 0)
    busy.producers.attach("p", "c")
    context.states = {"orders.eu": busy, "orders.us": TopicState(TopicName("orders.us", "orders"), 0)}

    [task] = example("tasks").sluicegate_tasks(context)
    asyncio.run(task.run())

    assert (task.name, task.interval_ms()) == ("topics_with_producers", 10_000)
    assert context.metrics["topics_with_producers"].values == {(): 1}


def test_hook_sluicegate_startup() -> None:
    lines: list[str] = []
    plugin_manager([example("startup")]).hook.sluicegate_startup(log=lines.append)

    assert [line.rsplit(" ", 1)[0] for line in lines] == ["worker starts on Python"]


def test_hook_sluicegate_shutdown() -> None:
    lines: list[str] = []
    plugin_manager([example("shutdown")]).hook.sluicegate_shutdown(log=lines.append)

    [line] = lines
    assert re.fullmatch(r"worker ends after \d+ s", line)
