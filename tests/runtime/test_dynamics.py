"""Factors, quotas and tasks of plugins in a gateway and in an engine of the caller's own process."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from time import monotonic_ns
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.gateway.echo_plugin import EchoConfig, EchoDriver
from tests.gateway.lab import on_uvloop, upstream
from tests.gateway.quota_plugin import Following, Raising
from tests.gateway.test_embedded import Client, config, gateway, layer
from tests.waiting import until, until_so

from sluicegate import hookimpl
from sluicegate.broker import BaseDriver, BrokerContext
from sluicegate.config.models import GatewayConfig
from sluicegate.embedded import PolicyEngine, ServiceConfig
from sluicegate.engine.factors import Factor, Factors
from sluicegate.engine.pressure import PressureSource
from sluicegate.engine.task import Task
from sluicegate.model import Decision, EffectivePolicies, Operation, OperationKind
from sluicegate.processes.worker import Worker
from sluicegate.runtime.context import GatewayContext
from sluicegate.runtime.dynamics import Dynamics
from sluicegate.runtime.plugin_metrics import PluginMetrics
from sluicegate.runtime.plugins import CHOICE, Plugins
from sluicegate.runtime.reported import reported_factors
from sluicegate.testing import RecordingSink

RAISING = "tests.gateway.quota_plugin.Raising"


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


def engine_of(*plugins: object, **policies: Any) -> PolicyEngine:
    settings = GatewayConfig(brokers=(ServiceConfig(name="shop", system="service"),))
    return PolicyEngine(settings, [layer(**policies)], sink=RecordingSink(), plugins=plugins)


def publish(principal: str = "a", nbytes: int = 10) -> Operation:
    return Operation(OperationKind.PUBLISH, "t", principal, messages=1, bytes=nbytes, largest=nbytes)


def decide(engine: PolicyEngine, op: Operation, now_ns: int = 0) -> Decision | None:
    """Decide now, or at a time of the test's own."""
    now_ns = now_ns or monotonic_ns()
    with engine.lock:
        return engine.gate("t", False, now_ns).publish(op, now_ns)


def metrics(worker: Worker) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        metric["name"]: {tuple(labels): value for labels, value in metric["values"]}
        for metric in worker.snapshot()["plugin_metrics"]
    }


@pytest.mark.seed("S4-002", "S4-003", "S5-036")
@on_uvloop
async def test_a_factor_pauses_and_resumes_clients_without_a_new_gate() -> None:
    plugin = Following()
    async with upstream() as port, gateway(config(port), plugins=[plugin]) as served:
        client = await Client.to(served)
        assert await client.say("publish t 10") == "publish t 10"
        gates = served.worker().gates
        gate = gates.live["t"]
        plugin.wanted = 0.0
        await until_so(lambda: plugin.factor.value == 0.0)

        saying = asyncio.ensure_future(client.say("publish t 10"))
        await asyncio.sleep(0.4)
        assert not saying.done()
        plugin.wanted = 1.0
        assert await saying == "publish t 10"

        assert gates.live["t"] is gate
        # Read in a thread of their own, set by the one that owns the gates, and by no other.
        assert plugin.threads.isdisjoint({threading.current_thread()})
        assert plugin.setters == {threading.current_thread()}
        client.close()


@on_uvloop
async def test_tasks_finish_their_first_run_before_a_client_is_accepted() -> None:
    plugin = Following(0.25)
    async with upstream() as port, gateway(config(port), plugins=[plugin]) as served:
        assert plugin.runs >= 1
        assert plugin.factor.value == 0.25
        await served.worker().tick(monotonic_ns())
        found = metrics(served.worker())
        assert found["sluicegate_quota_factor"] == {("tank",): 0.25}
        assert found["sluicegate_quota_factor_known"] == {("tank",): 1.0}
        assert found["sluicegate_task_last_success_timestamp_seconds"][("tank",)] > 1e9
        assert found["sluicegate_task_failures"] == {("tank",): 0.0}


@on_uvloop
async def test_a_factor_that_raises_is_counted_under_its_plugin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugin = Following(0.5)
    # The one that raises is asked first, and last where the first result wins.
    plugins = [Raising(), plugin, Raising.__new__(type("Again", (Raising,), {}))]
    with caplog.at_level(logging.ERROR):
        async with upstream() as port, gateway(config(port), plugins=plugins) as served:
            client = await Client.to(served)
            assert await client.say("publish t 10") == "publish t 10"
            worker = served.worker()
            await until_so(lambda: plugin.runs >= 5)
            faults = worker.snapshot()["plugin_faults"]
            assert faults[RAISING] >= 4
            assert faults["tests.runtime.test_dynamics.Again"] >= 3
            assert "tests.gateway.quota_plugin.Following" not in faults
            assert plugin.asked == ["ANONYMOUS"]
            assert metrics(worker)["sluicegate_task_failures"][("raising",)] >= 1
            client.close()
    lines = [record.getMessage() for record in caplog.records]
    for text in ("no factors", "no sources", "no quota", "no work", "ZeroDivisionError"):
        assert any(text in line for line in lines), text
    assert any("there is a task 'raising' already" in line for line in lines)


def test_a_withdrawn_factor_is_no_longer_reported() -> None:
    facts = {"factor.gone": '{"value": 0.0}', "factor.tank": '{"value": 0.5}', "brokers.1": "kept"}

    class Remembering:
        system = "shop"
        factors = Factors([Factor("tank", "Wait.")])
        metrics = PluginMetrics()
        remember = staticmethod(facts.__setitem__)
        now_ns = staticmethod(monotonic_ns)

        @staticmethod
        def wall_ms() -> int:
            return 7

        @staticmethod
        def recall(prefix: str) -> dict[str, str]:
            return {key: value for key, value in facts.items() if key.startswith(prefix)}

    nobody = SimpleNamespace(implementations=lambda hook: [], driver_of=lambda system: None)
    assert Dynamics(cast("GatewayContext", Remembering()), cast("Plugins", nobody)).start() is None
    assert list(reported_factors(facts, EffectivePolicies("", 1, {}, {}))) == ["tank"]
    assert facts["brokers.1"] == "kept"


def test_an_invalid_factor_is_a_fault_of_its_plugin() -> None:
    class Wrong:
        @hookimpl
        def sluicegate_quota_factors(self) -> list[object]:
            return [0.5]

    class Twice:
        @hookimpl
        def sluicegate_quota_factors(self) -> list[Factor]:
            return [Factor("one", ""), Factor("one", "")]

    with engine_of(Wrong(), Twice()) as engine:
        texts = {plugin: fault.error for plugin, fault in engine.faults.last.items()}
        assert len(engine.context.factors) == 1
    assert [text.split(":")[0] for text in texts.values()] == ["TypeError", "ValueError"]


class Filling(EchoDriver):
    """Brings a factor, a pressure source and a task for its own kind of broker."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def quota_factors(self, context: BrokerContext) -> list[Factor]:
        self.asked.append(f"factors of {context.broker}")
        return [Factor("disk", "")]

    def pressure_sources(self, context: BrokerContext) -> list[PressureSource]:
        async def read() -> float:
            return 0.5

        assert context.factors.get("disk") is not None
        return [PressureSource("disk", "memory", read)]

    def tasks(self, context: BrokerContext) -> list[Task]:
        self.asked += [source.name for source in context.pressure_sources]

        async def look() -> None:
            self.asked.append("task")

        return [Task("disk", lambda: 60_000, look)]


class Offers:
    """A plugin with a driver."""

    def __init__(self, driver: BaseDriver) -> None:
        self._driver = driver

    @hookimpl
    def sluicegate_broker(self) -> BaseDriver:
        return self._driver


def test_the_driver_of_the_broker_is_asked_after_the_hooks() -> None:
    driver = Filling()
    entry = EchoConfig.model_validate(
        {"name": "e", "system": "echo", "bootstrap": ["b:1"], "listen": {"port": 1}}
    )
    plugins = [Offers(driver), Following()]
    settings = GatewayConfig(brokers=(entry,))
    with PolicyEngine(settings, [], sink=RecordingSink(), plugins=plugins) as engine:
        assert [factor.name for factor in engine.context.factors] == ["tank", "disk"]
        until(lambda: "task" in driver.asked)
        assert driver.asked == ["factors of e", "memory_gateway", "tank", "disk", "task"]


def test_the_driver_of_another_kind_of_broker_is_not_asked() -> None:
    driver = Filling()
    with engine_of(Offers(driver)) as engine:
        assert list(engine.context.factors) == []
    assert driver.asked == []


@pytest.mark.seed("S4-001", "S4-007")
def test_an_embedded_engine_has_factors_quotas_and_tasks() -> None:
    plugin = Following(0.0)
    with engine_of(plugin) as engine:
        paused = decide(engine, publish())
        assert paused is not None
        assert (paused.reasons[0].policy, paused.factor) == ("tank", 0.0)
        plugin.wanted = 1.0
        until(lambda: plugin.factor.value == 1.0)
        assert decide(engine, publish()) is None

        now_ns = monotonic_ns()
        assert [decide(engine, publish("small"), now_ns) is None for _ in range(3)] == [True, True, False]
        assert plugin.asked.count("small") == 1
        engine.set_policies([layer(max_message_size=100)])
        decide(engine, publish("small"))
        assert plugin.asked.count("small") == 2
    assert not [thread for thread in threading.enumerate() if thread.name == "sluicegate-tasks"]


def test_a_principal_of_any_length_has_a_quota_of_its_own() -> None:
    with engine_of(principal_publish_quota=1) as engine:
        now_ns = monotonic_ns()
        for name in ("x" * 5_000, "x" * 4_999 + "y"):
            assert [decide(engine, publish(name), now_ns) is None for _ in range(2)] == [True, False]


def test_the_context_describes_the_broker_and_the_policies_in_force() -> None:
    plugin = Following()
    with engine_of(plugin, max_publish_rate=5) as engine:
        context = plugin.context
        assert context is not None
        assert (context.broker, context.system, context.broker_tls) == ("shop", "service", None)
        assert context.policies.number("max_publish_rate") == 5
        decide(engine, publish())
        assert context.resolve("t").number("max_publish_rate") == 5
        assert context.states["t"].context is engine.context
        assert context.plugins_give_quotas
        before_ms = time.time_ns() // 1_000_000
        told_ms = context.wall_ms()
        assert before_ms - 1000 < told_ms < time.time_ns() // 1_000_000 + 1000
        assert context.log.name == "sluicegate.plugin.tests.gateway.quota_plugin.Following"
        engine.set_policies([layer(max_publish_rate=7)])
        assert context.policies.number("max_publish_rate") == 7
        assert "tank" in [source.name for source in context.pressure_sources]
        assert context.quota("a") is None


def test_the_last_values_of_factors_are_remembered_in_the_store(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(f"brokers: [{{name: shop, system: service}}]\nstate_dir: {tmp_path / 'var'}\n")
    plugin = Following(0.5)
    with PolicyEngine.from_file(file, plugins=[plugin], sink=RecordingSink()) as engine:
        until(lambda: bool(engine.context.recall("factor.")))
        plugin.wanted = 0.0
        until(lambda: '"value": 0.0' in engine.context.recall("factor.")["factor.tank"])

    class Asking:
        recalled: Mapping[str, str]

        @hookimpl
        def sluicegate_quota_factors(self, context: BrokerContext) -> list[Factor]:
            self.recalled = context.recall("factor.")
            return []

    asking = Asking()
    with PolicyEngine.from_file(file, plugins=[asking], sink=RecordingSink()) as engine:
        assert engine.context.recall("factor.")["factor.tank"] == "null"  # no plugin gives it any more
    fact = json.loads(asking.recalled["factor.tank"])
    assert (fact["value"], fact["why"], fact["known"]) == (0.0, "the tank leaves 0.0", True)
    assert abs(fact["at_ms"] - time.time_ns() // 1_000_000) < 60_000


def test_an_engine_without_tasks_starts_no_thread() -> None:
    with engine_of():
        assert not [thread for thread in threading.enumerate() if thread.name == "sluicegate-tasks"]


def test_a_factor_that_changes_often_is_stored_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    class Quiet:
        factor = Factor("tank", "")

        @hookimpl
        def sluicegate_quota_factors(self, context: BrokerContext) -> list[Factor]:
            return [self.factor]

        @hookimpl
        def sluicegate_tasks(self) -> list[Task]:
            return []

    plugin = Quiet()
    with engine_of(plugin) as engine:
        dynamics = engine._host.dynamics
        told: list[float] = []
        monkeypatch.setattr(
            engine._host.facts, "remember", lambda key, value: told.append(json.loads(value)["value"])
        )
        start_ns = monotonic_ns()
        for second in range(1, 13):
            plugin.factor.set(1 - second / 20, "")
            dynamics.publish(start_ns + second * 1_000_000_000)
        plugin.factor.set(0.0, "")
        dynamics.publish(start_ns + 13 * 1_000_000_000)
        dynamics.publish(start_ns + 14 * 1_000_000_000)
        dynamics.publish(start_ns + 80 * 1_000_000_000)

    assert told == pytest.approx([0.95, 0.7, 0.45, 0.0, 0.0])
