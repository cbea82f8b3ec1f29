"""Registers functions whose stack frames show what the event loop is busy with; see `engine.holders`."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from sluicegate.engine.faults import plugin_of
from sluicegate.engine.gate import Gate
from sluicegate.engine.holders import tell_by
from sluicegate.model import OperationKind
from sluicegate.net.relaying.relay import ClientSide
from sluicegate.net.relaying.upstream_side import UpstreamSide
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.plugins import Implementation


def _asked(variables: Mapping[str, Any]) -> Mapping[str, str]:
    """A check that the gate calls outside of its hot paths."""
    check = variables["entry"].check
    return {"policy": check.policy, "plugin": plugin_of(check), "topic": variables["self"].topic.full}


def _hot(kind: OperationKind, variables: Mapping[str, Any]) -> Mapping[str, str]:
    """One of the checks of a hot path; none once all of them have passed."""
    gate = variables["self"]
    found = {"topic": gate.topic.full}
    if "state" not in variables:
        check = gate._checks[kind][variables["place"]].check  # noqa: SLF001 - to look costs the gate nothing
        found |= {"policy": check.policy, "plugin": plugin_of(check)}
    return found


def enter() -> None:
    """Register the gateway's functions."""
    tell_by(Gate, "_ask", _asked)
    tell_by(Gate, "publish", partial(_hot, OperationKind.PUBLISH))
    tell_by(Gate, "dispatch", partial(_hot, OperationKind.DISPATCH))
    tell_by(Implementation, "__call__", lambda variables: {"plugin": variables["self"].plugin})
    tell_by(GateCompiler, "_compile", lambda variables: {"work": "gates", "topic": variables["topic"]})
    for method in ("data_received", "turn"):
        tell_by(ClientSide, method, lambda variables: {"client": variables["self"].name})
    tell_by(UpstreamSide, "data_received", lambda variables: {"client": variables["client"].name})
