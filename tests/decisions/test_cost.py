"""A sample of decisions is timed, and the gate decides as ever."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sluicegate.decisions import DecisionLog
from sluicegate.decisions.cost import EVERY_NS
from sluicegate.decisions.reading import read_decisions
from sluicegate.engine.gate import Gate
from sluicegate.model import Operation, OperationKind
from sluicegate.testing import build_gate

OpenLog = Callable[..., DecisionLog]


@pytest.mark.parametrize("detail", ["summary", "full"])
def test_a_few_publishes_are_timed(tmp_path: Path, open_log: OpenLog, detail: str) -> None:
    log = open_log(tmp_path, detail=detail, period_s=10)
    gate = build_gate({"max_publish_rate": 0}, now_ns=0, sink=log)
    op = Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=9, largest=9)
    step_ns = EVERY_NS // 10

    for number in range(3_000):
        assert gate.publish(op, number * step_ns) is None
    log.close()

    table = read_decisions(tmp_path)
    costs = [cost for cost in table.column("decision_cost").to_pylist() if cost is not None]
    assert len(costs) == (30 if detail == "summary" else 12)
    assert all(cost > 0 for cost in costs)
    assert sum(table.column("decisions").to_pylist()) == 3_000
    assert log.stats().emitted == 3_000


def test_other_kinds_of_operation_are_not_timed(tmp_path: Path, open_log: OpenLog) -> None:
    log = open_log(tmp_path, detail="full", period_s=10)
    gate = build_gate({}, now_ns=0, sink=log)

    for number in range(100):
        gate.dispatch(Operation(OperationKind.DISPATCH, "orders.eu", messages=1), number * EVERY_NS)
    log.close()

    assert type(gate) is Gate
    assert read_decisions(tmp_path).column("decision_cost").null_count == 100


def test_timing_does_not_nest(tmp_path: Path, open_log: OpenLog) -> None:
    log = open_log(None, detail="full")
    gate = build_gate({}, now_ns=0, sink=log)
    op = Operation(OperationKind.PUBLISH, "orders.eu", messages=1)

    for number in range(20_000):
        gate.publish(op, number * EVERY_NS)
    gate.publish(op, 0)

    assert type(gate) is Gate
    assert gate.timing is None
