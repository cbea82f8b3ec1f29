"""Invalid results of plugins are reported and counted, and fail open or closed; clients are served."""

import asyncio
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.test_dynamics import engine_of

from sluicegate import hookimpl
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.faults import FAULTS_TO_OPEN, GateFaults
from sluicegate.engine.gate import Gate
from sluicegate.engine.quota import Quota
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, PolicySet, Reason, TopicName
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.plugin_metrics import PluginMetrics
from sluicegate.runtime.plugins import CHOICE, load_plugins
from sluicegate.testing import NullSink

NOW = 1_000_000_000
NAME = f"{__name__}.Plugin"
KINDS = (OperationKind.PUBLISH, OperationKind.DISPATCH, OperationKind.ATTACH_PRODUCER)
REASON = Reason("mine", Outcome.INVALID, "no")


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


class Plugin:
    """Gives what it is told to, as checks, delay rule and quota."""

    def __init__(self, checks: Any = None, rule: Any = None, quota: Any = None) -> None:
        self.checks, self.rule, self.quota = checks, rule, quota

    @hookimpl
    def sluicegate_policy_checks(self) -> Any:
        return self.checks() if callable(self.checks) else self.checks

    @hookimpl
    def sluicegate_delay_rule(self) -> Any:
        return self.rule() if callable(self.rule) else self.rule

    @hookimpl
    def sluicegate_quota(self) -> Any:
        return self.quota() if callable(self.quota) else self.quota


class Lab:
    """A compiler with one plugin."""

    def __init__(self, plugin: Plugin) -> None:
        self.faults = GateFaults()
        self.version = 1
        self.compiler = GateCompiler(
            load_plugins((), [plugin]),
            lambda topic: TopicName(topic, "ns"),
            self.policies(),
            NullSink(),
            self.faults,
        )

    def policies(self) -> PolicySet:
        return PolicySet(self.version)

    def gate(self) -> Gate:
        return self.compiler.gates.get("t", False, NOW)

    def again(self) -> Gate:
        """The gateway after a change of policies."""
        self.version += 1
        self.compiler.replace(self.policies())
        return self.gate()


def operation(kind: OperationKind = OperationKind.PUBLISH) -> Operation:
    return Operation(kind, "t", producer="p", client="c", messages=1, bytes=1, largest=1)


def check(call: Any, **fields: Any) -> Check:
    values: dict[str, Any] = {"policy": "mine", "kinds": KINDS, "call": call, **fields}
    return Check(**values)


async def coroutine(*arguments: object) -> None:
    """What an author gives who thinks that checks may wait."""


class Hostile:
    """Cannot even be printed."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def reason(*fields: Any) -> Reason:
    return Reason(*("mine", Outcome.INVALID, "no", *fields))


WRONG_ANSWERS: list[Callable[[], Any]] = [
    *(
        lambda value=value: value
        for value in (True, False, 0, 1.5, "reject", (), {}, object(), Hostile(), Decision)
    ),
    lambda: Action.REJECT,
    lambda: Decision("reject", (REASON,)),  # type: ignore[arg-type]
    lambda: Decision(Action.REJECT, ()),
    lambda: Decision(Action.REJECT, REASON),  # type: ignore[arg-type]
    lambda: Decision(Action.REJECT, ("no",)),  # type: ignore[arg-type]
    lambda: Decision(Action.DELAY, (REASON,)),
    *(
        lambda delay_ns=delay_ns: Decision(Action.DELAY, (REASON,), delay_ns=delay_ns)
        for delay_ns in (-1, math.nan, 0.5, True)
    ),
    lambda: Decision(Action.DROP, (REASON,)),
    lambda: Decision(Action.REJECT, (REASON,), factor=math.nan),
    lambda: Decision(Action.REJECT, (REASON,), factor="1"),  # type: ignore[arg-type]
    lambda: Decision(Action.REJECT, (REASON,), observed=True),
    lambda: Decision(Action.REJECT, (Reason("mine", "invalid", "no"),)),  # type: ignore[arg-type]
    lambda: Decision(Action.REJECT, (Reason("mine", Outcome.INVALID, b"no"),)),  # type: ignore[arg-type]
    *(
        lambda numbers=numbers: Decision(Action.REJECT, (reason(*numbers),))
        for numbers in ((math.nan,), (0, 10**400), (0, Decimal(1)), ("5",))
    ),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("fail_open", [True, False])
@pytest.mark.parametrize("answer", WRONG_ANSWERS, ids=range(len(WRONG_ANSWERS)))
def test_a_check_that_returns_no_decision_is_a_fault(
    answer: Callable[[], Any], fail_open: bool, kind: OperationKind
) -> None:
    calls = []

    def call(op: Operation, now_ns: int) -> Any:
        calls.append(now_ns)
        return answer()

    lab = Lab(Plugin([check(call, fail_open=fail_open)]))
    gate = lab.gate()
    for number in range(FAULTS_TO_OPEN + 3):
        decision = gate.decide(operation(kind), NOW + number)
        if fail_open:
            assert decision is None
        else:
            assert decision is not None
            assert decision.action is Action.REJECT
            assert decision.text.startswith("Policy mine could not be checked for topic t.")
    assert len(calls) == FAULTS_TO_OPEN, "it is skipped from then on"
    assert lab.faults.counts == {NAME: FAULTS_TO_OPEN}
    fault = lab.faults.last[NAME]
    assert fault.error.startswith(("TypeError: ", "ValueError: "))
    assert (fault.policy, fault.topic, fault.opened) == ("mine", "t", True)


@pytest.mark.parametrize("call", [lambda op, now_ns: coroutine(), coroutine], ids=["given", "async"])
@pytest.mark.parametrize("fail_open", [True, False])
def test_a_check_must_not_be_async(call: Callable[..., Any], fail_open: bool) -> None:
    lab = Lab(Plugin([check(call, fail_open=fail_open)]))
    decision = lab.gate().decide(operation(), NOW)
    assert (decision is None) == fail_open
    assert "async" in lab.faults.last[NAME].error


FATAL = [SystemExit(1), KeyboardInterrupt("1"), GeneratorExit("1"), asyncio.CancelledError("1")]
"""Exceptions that end an event loop, a task or a generator, or pass through `except Exception`."""


@pytest.mark.parametrize("error", FATAL, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("fail_open", [True, False])
def test_no_exception_of_a_check_ends_the_worker(error: BaseException, fail_open: bool) -> None:
    def call(op: Operation, now_ns: int) -> None:
        raise error

    lab = Lab(Plugin([check(call, fail_open=fail_open)]))
    decision = lab.gate().decide(operation(), NOW)
    assert (decision is None) == fail_open
    assert lab.faults.last[NAME].error == f"{type(error).__name__}: 1"


@pytest.mark.parametrize("error", FATAL, ids=lambda error: type(error).__name__)
def test_no_exception_of_a_hook_ends_the_worker(error: BaseException) -> None:
    def raises() -> None:
        raise error

    lab = Lab(Plugin(checks=raises, rule=raises))
    assert lab.gate().decide(operation(), NOW) is None
    assert lab.faults.counts == {NAME: 2}
    assert lab.faults.last[NAME].error == f"{type(error).__name__}: 1"


def test_an_exception_with_a_broken_repr_is_a_fault() -> None:
    class Mute(Exception):  # noqa: N818 - its name is what is told
        def __str__(self) -> str:
            raise RuntimeError("no")

    def call(op: Operation, now_ns: int) -> None:
        raise Mute

    lab = Lab(Plugin([check(call)]))
    assert lab.gate().decide(operation(), NOW) is None
    assert lab.faults.last[NAME].error.startswith("Mute: ")


GARBAGE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.integers()),
    st.sampled_from([*Action, *Outcome, REASON, math.nan, 1 << 70, object(), Hostile()]),
)  # fmt: skip


@given(
    st.tuples(
        st.one_of(st.sampled_from(Action), GARBAGE),
        st.one_of(
            st.tuples(GARBAGE, GARBAGE, GARBAGE, GARBAGE, GARBAGE, GARBAGE).map(lambda fields: [fields]),
            st.just((REASON,)),
            GARBAGE,
        ),
        GARBAGE,
        GARBAGE,
        st.booleans(),
    ),
    st.sampled_from(KINDS),
)
def test_only_valid_decisions_leave_the_gate(fields: tuple[Any, ...], kind: OperationKind) -> None:
    def decide(op: Operation, now_ns: int) -> Decision:
        action, reasons, *rest = fields
        if isinstance(reasons, list) and reasons and isinstance(reasons[0], tuple):
            reasons = tuple(Reason(*values) for values in reasons)
        return Decision(action, reasons, *rest)

    lab = Lab(Plugin([check(decide)]))
    found = lab.gate().decide(operation(kind), NOW)
    if lab.faults.counts:
        assert found is None
    elif found is not None:
        found.text.encode()
        assert isinstance(found.action, Action)
        assert found.action is not Action.DELAY or found.delay_ns > 0
        assert all(isinstance(reason.outcome, Outcome) for reason in found.reasons)


WRONG_CHECKS: list[Any] = [
    {"policy": ""}, {"policy": 5}, {"call": None}, {"call": "mine"}, {"kinds": None}, {"kinds": ("publish",)},
    {"kinds": OperationKind.PUBLISH}, {"kinds": (4,)}, {"stage": None}, {"stage": 2}, {"largest": "10MiB"},
    {"largest": math.nan}, {"largest": True}, {"largest": -1},
]  # fmt: skip


@pytest.mark.parametrize("fields", WRONG_CHECKS, ids=str)
def test_a_check_that_cannot_be_compiled_raises_in_its_plugin(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        check(**{"call": lambda op, now_ns: None, **fields})
    lab = Lab(Plugin(lambda: [check(**{"call": lambda op, now_ns: None, **fields})]))
    assert lab.gate().decide(operation(), NOW) is None
    assert lab.faults.counts == {NAME: 1}


@pytest.mark.parametrize(
    "checks",
    [True, 5, "checks", check(lambda op, now_ns: None), [None], [True], [Stage.RATE], coroutine],
    ids=range(8),
)
def test_an_invalid_list_of_checks_is_a_fault_and_the_last_good_checks_stay(checks: Any) -> None:
    refusal = Decision(Action.REJECT, (REASON,))
    plugin = Plugin([check(lambda op, now_ns: refusal)])
    lab = Lab(plugin)
    assert lab.gate().decide(operation(), NOW) is not None
    plugin.checks = checks
    assert lab.again().decide(operation(), NOW) is not None
    assert "sluicegate_policy_checks gave" in lab.faults.last[NAME].error
    plugin.checks = None
    assert lab.again().decide(operation(), NOW) is None, "None is no fault: nothing is checked any more"


RULES: list[Any] = [
    5, 30_000.0, True, "30s", coroutine,
    *(
        lambda fields=fields: DelayRule(**{"fixed_ms": 1, **fields})
        for fields in (
            {"fixed_ms": -1}, {"fixed_ms": 1.5}, {"fixed_ms": math.nan}, {"fixed_ms": True},
            {"max_ahead_ms": None}, {"clock": "now"}, {"fixed_ms": 1 << 62}, {"max_ms": -5}, {"tick_ms": -1},
            {"max_behind_ms": -1},
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_an_invalid_delay_rule_is_a_fault_and_the_last_good_rule_stays(rule: Any) -> None:
    plugin = Plugin(rule=rule)
    lab = Lab(plugin)
    assert lab.gate().delay is None
    assert lab.faults.counts == {NAME: 1}
    plugin.rule = good = DelayRule(60_000)
    assert lab.again().delay is good
    plugin.rule = rule
    assert lab.again().delay is good, "no message is delivered early because a plugin broke"
    plugin.rule = None
    assert lab.again().delay is None


QUOTAS: list[Any] = [
    5, True, "10/s", coroutine,
    *(
        lambda fields=fields: Quota(*fields)
        for fields in ((-1,), (math.nan,), (math.inf,), ("5",), (True,), (0, 10**400), (1, 1, None))
    ),
]  # fmt: skip


@pytest.mark.parametrize("quota", QUOTAS, ids=range(len(QUOTAS)))
def test_an_invalid_quota_is_a_fault_and_the_policies_stay(quota: Any) -> None:
    with engine_of(Plugin(quota=quota), principal_publish_quota=1) as engine:
        found = engine.context.quota("User:a")
        assert found is not None
        assert found.messages_per_s == 1
        assert engine.faults.counts[NAME] == 1


CLOCK = "sluicegate.runtime.slow_calls.perf_counter_ns"


def quiet(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if "took" in line]


def test_each_slow_call_is_counted_and_logged_with_its_duration(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter([0, 4_999_999, 10, 5_000_010, 20, 60_000_020])
    lab = Lab(Plugin([check(lambda op, now_ns: None)]))
    monkeypatch.setattr(CLOCK, lambda: 0)  # whatever the hooks take
    gate = lab.gate()
    monkeypatch.setattr(CLOCK, lambda: next(clock))
    metrics = PluginMetrics()
    lab.compiler.context = SimpleNamespace(metrics=metrics)
    for number in range(3):
        assert gate.decide(operation(), NOW + number) is None
    assert quiet(record.getMessage() for record in caplog.records) == [
        f"a check of plugin {NAME} took 5.0 ms, and all clients of the broker waited"
    ], "the second one within a second is counted only"
    values = {each["name"]: each["values"] for each in metrics.snapshot()}
    assert values["sluicegate_plugin_slow_calls"] == [[[NAME, "mine"], 2]]
    assert values["sluicegate_plugin_slowest_call_seconds"] == [[[NAME, "mine"], 0.06]]


def test_each_hook_and_one_call_of_a_check_in_64_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(Plugin([check(lambda op, now_ns: None)]))
    ticks = iter(range(0, 10**9, 1_000))
    monkeypatch.setattr(CLOCK, lambda: next(ticks))
    gate = lab.gate()
    longer = iter([False] * 71 + [True] + [False] * 128)
    monkeypatch.setattr(CLOCK, lambda: next(ticks) + 9_000 * next(longer))
    for number in range(100):
        assert gate.decide(operation(), NOW + number) is None
    times = {each["call"]: each for each in lab.compiler.slow.snapshot() if each["plugin"] == NAME}
    assert times["sluicegate_policy_checks"]["sampled"] == 1
    assert (times["mine"]["sampled"], times["mine"]["sampled_ns"]) == (2, 2_000)
    assert times["mine"]["longest_ns"] == 10_000, "of all calls, sampled or not"


def test_names_of_policies_that_a_plugin_makes_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.runtime.slow_calls.LABEL_SETS", 3)
    lab = Lab(Plugin([check(lambda op, now_ns: None, policy=f"p{number}") for number in range(9)]))
    for _ in range(2):
        lab.again().decide(operation(), NOW)
    calls = [each["call"] for each in lab.compiler.slow.snapshot()]
    assert calls.count("other") == 1
    assert len(calls) <= 4


def test_a_slow_call_that_raises_is_logged_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def call(op: Operation, now_ns: int) -> None:
        raise LookupError

    lab = Lab(Plugin([check(call)]))
    monkeypatch.setattr(CLOCK, lambda: 0)
    gate = lab.gate()
    clock = iter([0, 7_000_000])
    monkeypatch.setattr(CLOCK, lambda: next(clock))
    assert gate.decide(operation(), NOW) is None
    assert len(quiet(record.getMessage() for record in caplog.records)) == 1


@pytest.mark.parametrize("hook", ["checks", "rule"])
def test_a_slow_hook_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hook: str
) -> None:
    now = [0]

    def slow() -> None:
        now[0] += 8_000_000

    monkeypatch.setattr(CLOCK, lambda: now[0])
    lab = Lab(Plugin(**{hook: slow}))
    lab.gate()
    [line] = quiet(record.getMessage() for record in caplog.records)
    assert f"of plugin {NAME} took 8.0 ms" in line
    assert "sluicegate_" in line


def test_built_in_checks_are_not_wrapped() -> None:
    lab = Lab(Plugin())
    gate = lab.gate()
    found = [entry.check for entries in gate._entries for entry in entries]
    assert found
    assert {each.call.__module__.partition(".")[0:1] for each in found} == {("sluicegate",)}
    assert not any("slow_calls" in each.call.__module__ for each in found)
