"""Cost of validating and timing a plugin's check; built-in checks are neither validated nor timed."""

import itertools
import time

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import ENGINE
from benchmarks.harness.scenario import Scenario
from sluicegate import hookimpl
from sluicegate.engine.check import Check, Stage
from sluicegate.engine.compiling import compile_gate
from sluicegate.engine.faults import GateFaults
from sluicegate.engine.gate import Gate
from sluicegate.model import Decision, Operation, OperationKind, PolicySet, TopicName
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.plugins import load_plugins
from sluicegate.testing import NullSink

_ROUNDS = 9


def _allow(op: Operation, now_ns: int) -> Decision | None:
    return None


_CHECK = Check("mine", (OperationKind.PUBLISH,), _allow, Stage.CUSTOM)


class _Plugin:
    """One check for every topic."""

    @hookimpl
    def sluicegate_policy_checks(self) -> list[Check]:
        return [_CHECK]


def _gate(*plugins: object) -> Gate:
    """A gate as a gateway compiles it."""
    made = GateCompiler(
        load_plugins((), plugins),
        lambda topic: TopicName(topic, "ns"),
        PolicySet(1),
        NullSink(),
        GateFaults(),
    )
    return made.gates.get("orders", False, 0)


def _bare(gate: Gate) -> Gate:
    """The gate with the check called directly."""
    return compile_gate(
        gate.topic, gate.policies, gate.state, [_CHECK], None, NullSink(), GateFaults(), exempt=False
    )


def _measure(_: Bench, _name: str, quick: bool) -> dict[str, float]:
    calls = 20_000 if quick else 200_000
    looked_at = _gate(_Plugin())
    gates = {"bare": _bare(looked_at), "looked at": looked_at}
    best = dict.fromkeys(gates, float("inf"))
    for _round in range(_ROUNDS):  # in turn, so that what else the machine does meets all alike
        for name, gate in gates.items():
            best[name] = min(best[name], _publish_ns(gate, calls))
    return {
        "bare_ns": best["bare"],
        "looked_at_ns": best["looked at"],
        "looked_at_adds_ns": best["looked at"] - best["bare"],
    }


def _publish_ns(gate: Gate, calls: int) -> float:
    """CPU nanoseconds of one allowed publish, the loop around it included."""
    op = Operation(OperationKind.PUBLISH, "orders", client="c", messages=1, bytes=1000, largest=1000)
    publish, start = gate.publish, time.thread_time_ns()
    for _call in itertools.repeat(None, calls):
        publish(op, 0)
    return (time.thread_time_ns() - start) / calls


SCENARIOS = (
    Scenario(
        "plugin-checks",
        "cost of looking at what a plugin's check gives, and of timing it",
        (ENGINE,),
        _measure,
        cold_round=False,
    ),
)
