"""Gates from bare checks."""

from collections.abc import Mapping, Sequence

import pytest
from tests.engine.lab import TOPIC, KeepingSink, MakeGate

from sluicegate.engine.check import Check
from sluicegate.engine.compiling import compile_gate
from sluicegate.engine.gate import Gate, GateFaults
from sluicegate.engine.state import TopicState
from sluicegate.model import EffectivePolicies, PolicyValue


@pytest.fixture
def sink() -> KeepingSink:
    return KeepingSink()


@pytest.fixture
def state() -> TopicState:
    return TopicState(TOPIC, 0)


@pytest.fixture
def faults() -> GateFaults:
    return GateFaults()


@pytest.fixture
def make_gate(sink: KeepingSink, state: TopicState, faults: GateFaults) -> MakeGate:
    def make(
        checks: Sequence[Check],
        values: Mapping[str, PolicyValue] | None = None,
        *,
        exempt: bool = False,
        observe_only: bool = False,
        exempt_policies: frozenset[str] = frozenset(),
    ) -> Gate:
        policies = EffectivePolicies(TOPIC.full, 7, values or {}, {}, observe_only)
        return compile_gate(TOPIC, policies, state, checks, None, sink, faults, exempt, exempt_policies)

    return make
