import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns

import pytest

from sluicegate import hookimpl
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.models import GatewayConfig
from sluicegate.embedded import PolicyEngine, ServiceConfig
from sluicegate.model import (
    Action,
    Level,
    Method,
    MethodMap,
    Operation,
    OperationKind,
    PolicyLayer,
    PolicyValue,
    Role,
    Setting,
    Source,
    TopicName,
)
from sluicegate.runtime.plugins import CHOICE
from sluicegate.testing import RecordingSink

FILE = """
brokers: [{{name: shop, system: service, exempt: {{principals: [root]}}}}]
state_dir: {state_dir}
policies:
  broker: {{max_message_size: {size}}}
"""


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


def layer(**values: PolicyValue) -> PolicyLayer:
    settings = {name: Setting(value, Source.FILE, "gateway.yaml:1") for name, value in values.items()}
    return PolicyLayer(Level.BROKER, "", settings)


def of_objects(*layers: PolicyLayer, **options: object) -> PolicyEngine:
    config = GatewayConfig(brokers=(ServiceConfig(name="shop", system="service"),))
    return PolicyEngine(config, layers, sink=RecordingSink(), **options)  # type: ignore[arg-type]


def publish(size: int, topic: str = "orders.eu") -> Operation:
    return Operation(OperationKind.PUBLISH, topic, messages=1, bytes=size, largest=size)


def refused(engine: PolicyEngine, size: int) -> bool:
    now_ns = monotonic_ns()
    with engine.lock:
        decision = engine.gate("orders.eu", False, now_ns).publish(publish(size), now_ns)
    return decision is not None and decision.action is Action.REJECT


def until(engine: PolicyEngine, is_so: Callable[[], bool]) -> None:
    """Look once a second, as the engine does; the time limit of the test ends what never comes."""
    told = threading.Event()

    def look(_: int) -> bool:
        if is_so():
            told.set()
        return not told.is_set()

    engine.every_second(look)
    told.wait()


def write(path: Path, size: str) -> Path:
    path.write_text(FILE.format(state_dir=path.parent / "var", size=size))
    return path


def test_policies_and_exempt_principals_of_a_file_apply(tmp_path: Path) -> None:
    with PolicyEngine.from_file(write(tmp_path / "p.yaml", "100")) as engine:
        assert not refused(engine, 100)
        assert refused(engine, 101)
        assert engine.policies.exempt_principals == {"root"}
        assert engine.max_hold_ns == 10_000_000_000


def test_gate_memory_bounds_the_gates() -> None:
    config = GatewayConfig(brokers=(ServiceConfig(name="shop", system="service", gate_memory=1 << 20),))
    with PolicyEngine(config, (), sink=RecordingSink()) as engine:
        for number in range(300):
            engine.gate(f"t{number}", False, 0)
        assert len(engine.gates.live) == 128


def test_periodic_work_that_raises_does_not_block_other_work(tmp_path: Path) -> None:
    def raising(_: int) -> bool:
        raise RuntimeError("each second")

    with PolicyEngine.from_file(write(tmp_path / "p.yaml", "100")) as engine:
        engine.every_second(raising)
        looks = itertools.count()
        until(engine, lambda: next(looks) >= 1)


@pytest.mark.seed("S1-024")
def test_a_changed_file_takes_effect_and_a_broken_one_keeps_the_last_good(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    with PolicyEngine.from_file(write(path, "100")) as engine:
        write(path, "nonsense")
        looks = itertools.count()
        until(engine, lambda: next(looks) == 1)  # it has looked at the file in between
        assert refused(engine, 101)
        version = engine.policies.version
        write(path, "1000")
        until(engine, lambda: engine.policies.version != version)
        assert not refused(engine, 101)


def raises(*_: object) -> None:
    raise RuntimeError("a bug")


@pytest.mark.parametrize("broken", ["engine._keep_facts", "watch._write_facts", "watch._check_store"])
def test_a_change_takes_effect_although_other_work_of_the_look_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    path = tmp_path / "p.yaml"
    with PolicyEngine.from_file(write(path, "100")) as engine:
        engine._ending.set()
        engine._thread.join()
        write(path, "1000")
        owner, _, method = broken.partition(".")
        with monkeypatch.context() as patched:
            patched.setattr(engine if owner == "engine" else engine._watch, method, raises)
            with pytest.raises(RuntimeError):
                engine._look(1)
        engine._look(2)
        assert not refused(engine, 101)
        engine._ending.clear()  # what closes it still has all to do


def test_a_file_with_mistakes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors):
        PolicyEngine.from_file(write(tmp_path / "p.yaml", "nonsense"))


def test_an_unknown_broker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        PolicyEngine.from_file(write(tmp_path / "p.yaml", "1"), "other")


def test_decisions_are_kept_in_the_state_directory(tmp_path: Path) -> None:
    with PolicyEngine.from_file(write(tmp_path / "p.yaml", "100")) as engine:
        assert refused(engine, 101)
        assert not refused(engine, 1)
    assert engine.log_stats()["decided"] == 2
    assert list((tmp_path / "var").rglob("*.parquet"))


def test_set_policies_replaces_all_and_keeps_counts() -> None:
    with of_objects(layer(max_producers_per_topic=1)) as engine:

        def attach(name: str) -> bool:
            op = Operation(OperationKind.ATTACH_PRODUCER, "t", client=name, producer=name)
            with engine.lock:
                return engine.gate("t", False, 0).decide(op, 0) is None

        assert [attach("a"), attach("b")] == [True, False]
        version = engine.policies.version
        changed = engine.set_policies([layer(max_producers_per_topic=2)])
        assert changed == engine.policies.version != version
        assert [attach("b"), attach("c")] == [True, False]


def test_an_engine_that_follows_a_file_refuses_set_policies(tmp_path: Path) -> None:
    with (
        PolicyEngine.from_file(write(tmp_path / "p.yaml", "1")) as engine,
        pytest.raises(ValueError, match="change them there"),
    ):
        engine.set_policies([])


@pytest.mark.parametrize(
    ("topic", "namespace"), [("/shop/orders", "shop"), ("shop.orders", "shop"), ("orders", "default")]
)
def test_namespaces_of_a_service(topic: str, namespace: str) -> None:
    with of_objects() as engine:
        assert engine.gate(topic, False, 0).topic == TopicName(topic, namespace)


def test_publish_rates_of_a_service_refuse_by_default() -> None:
    with of_objects(layer(max_publish_rate=1)) as engine:
        actions = []
        for _ in range(2):
            decision = engine.gate("t", False, 0).publish(publish(1, "t"), 0)
            actions.append(decision and decision.action)
        assert actions == [None, Action.REJECT]


def test_method_map_of_a_plugin() -> None:
    wanted = MethodMap("service", {"/p.S/M": Method(Role.PUBLISH)})

    class Plugin:
        @hookimpl
        def sluicegate_method_map(self) -> MethodMap:
            return wanted

    with of_objects(plugins=(Plugin(),)) as engine:
        assert engine.method_map() is wanted
        with pytest.raises(KeyError):
            engine.method_map("other")


def test_startup_and_shutdown_hooks_are_called_once() -> None:
    told: list[str] = []

    class Plugin:
        @hookimpl
        def sluicegate_startup(self) -> None:
            told.append("startup")

        @hookimpl
        def sluicegate_shutdown(self) -> None:
            told.append("shutdown")

    engine = of_objects(plugins=(Plugin(),))
    engine.close()
    engine.close()
    assert told == ["startup", "shutdown"]


@pytest.mark.seed("S1-042")
def test_racing_threads_never_exceed_a_limit() -> None:
    with of_objects(layer(max_producers_per_topic=7)) as engine:
        ready = threading.Barrier(8)
        let_in: list[str] = []

        def race(thread: int) -> None:
            ready.wait()
            for number in range(125):
                name = f"{thread}-{number}"
                op = Operation(OperationKind.ATTACH_PRODUCER, "t", client=name, producer=name)
                with engine.lock:
                    if engine.gate("t", False, 0).decide(op, 0) is None:
                        let_in.append(name)

        threads = [threading.Thread(target=race, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(let_in) == 7
