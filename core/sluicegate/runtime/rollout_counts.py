"""What policies that are rolled out did and would have done, by the rule that set their mode."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sluicegate.engine.check import Check
from sluicegate.engine.state import TopicState
from sluicegate.model import EffectivePolicies, Level, OperationKind

MODE = "mode."
MOST = 100
"""Rules that are counted; further ones are not, and cannot be promoted by their counts."""
_PER_TICK = 4_096
_SLICE = 256
_WOULD = "would_"


class Rule(NamedTuple):
    """Where a policy's mode is set, and which."""

    policy: str
    level: Level
    name: str
    """Of the namespace or topic, or a pattern."""
    broker: str
    """Name of the entry that it is set for; empty for all."""
    mode: str


class _Totals(NamedTuple):
    asked: int = 0
    """Operations that the policy let pass or refused."""
    would: int = 0
    """Of these, those it would have refused or held."""
    did: int = 0
    """Of these, those it refused or held."""


@dataclass(slots=True)
class _Counted:
    """One policy of one topic."""

    rule: Rule
    kind: OperationKind
    seen: _Totals


class RolloutCounts:
    """Adds up by rule what the topics of one worker count anyway; allowed messages pay nothing for it."""

    def __init__(self) -> None:
        self._totals: dict[Rule, _Totals] = {}
        self._topics: dict[str, tuple[TopicState, list[_Counted]]] = {}
        self._ahead: list[str] = []

    def compiled(self, state: TopicState, policies: EffectivePolicies, checks: Sequence[Check]) -> None:
        """Note that a topic's gate was compiled; what it counted before goes to its former rules."""
        topic = state.topic.full
        rules = list(_rules(policies))
        if topic in self._topics:
            self._take(topic)
            del self._topics[topic]
        counted = []
        for rule in rules:
            if rule not in self._totals:
                self._drop_unused()
                if len(self._totals) >= MOST:
                    continue
                self._totals[rule] = _Totals()
            kind = _kind(rule.policy, checks)
            counted.append(_Counted(rule, kind, _read(state, rule.policy, kind)))
        if counted:
            self._topics[topic] = (state, counted)

    async def refresh(self, states: Mapping[str, TopicState]) -> None:
        """Add up what some of the topics have counted, in turn.

        :param states: of all topics that the worker knows; others are forgotten.
        """
        if not self._ahead:
            self._ahead = list(self._topics)
        for index in range(min(_PER_TICK, len(self._ahead))):
            topic = self._ahead.pop()
            if topic in self._topics:
                self._take(topic)
                if states.get(topic) is not self._topics[topic][0]:
                    del self._topics[topic]
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)

    def snapshot(self) -> list[dict[str, Any]]:
        """The totals since the start, as JSON."""
        return [
            {
                "policy": rule.policy,
                "level": rule.level.label,
                "name": rule.name,
                "broker": rule.broker,
                "mode": rule.mode,
                **totals._asdict(),
            }
            for rule, totals in self._totals.items()
        ]

    def _take(self, topic: str) -> None:
        state, counted = self._topics[topic]
        for each in counted:
            now, before = _read(state, each.rule.policy, each.kind), each.seen
            if now != before:
                total = self._totals[each.rule]
                self._totals[each.rule] = _Totals(
                    *(known + new - old for known, new, old in zip(total, now, before, strict=True))
                )
                each.seen = now

    def _drop_unused(self) -> None:
        """Make room for a rule: forget those that no topic has any more."""
        if len(self._totals) < MOST:
            return
        used = {each.rule for _, counted in self._topics.values() for each in counted}
        for rule in self._totals.keys() - used:
            del self._totals[rule]


def _rules(policies: EffectivePolicies) -> Iterable[Rule]:
    for field, mode in policies.values.items():
        if not field.startswith(MODE):
            continue
        policy, origin = field.removeprefix(MODE), policies.provenance.get(field)
        if origin is not None and origin.level is not None and policies.values.get(policy):
            yield Rule(policy, origin.level, origin.name, origin.broker, str(mode))


def _kind(policy: str, checks: Sequence[Check]) -> OperationKind:
    """What a policy checks: PUBLISH, DISPATCH, or ATTACH_PRODUCER for all attachments."""
    names = (policy, policy.removesuffix("_bytes"))
    kinds = {kind for check in checks if check.policy in names for kind in check.kinds}
    for kind in (OperationKind.PUBLISH, OperationKind.DISPATCH):
        if kind in kinds:
            return kind
    return OperationKind.ATTACH_PRODUCER


def _read(state: TopicState, policy: str, kind: OperationKind) -> _Totals:
    if kind is OperationKind.PUBLISH:
        asked = state.publish_ops
    elif kind is OperationKind.DISPATCH:
        asked = state.other_ops - state.attach_ops
    else:
        asked = state.attach_ops
    would = did = 0
    for (of, action, _), count in state.violations.items():
        if of != policy:
            continue
        if action.startswith(_WOULD):
            would += count
        else:
            did += count
            asked += count if action != "delay" else 0
    return _Totals(asked, would, did)
