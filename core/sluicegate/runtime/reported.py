"""Factors and adaptive rates as the gateway last reported them in a broker's facts, as JSON values."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sluicegate.config.fields import PolicyFields
from sluicegate.model import EffectivePolicies, ModeKind

BUDGETS_FACT = "budgets"
"""Key of the fact that tells how the budget store stands."""
_FACTOR = "factor."
_ADAPTIVE = "adaptive."
_QUOTAS = (
    "max_publish_rate",
    "max_publish_rate_bytes",
    "publish_quota",
    "publish_quota_bytes",
    "principal_publish_quota",
    "principal_publish_quota_bytes",
)
"""The rates and quotas that factors reduce."""
_DIGITS = 3
"""Of rates below one a second."""


def reported_factors(facts: Mapping[str, str], effective: EffectivePolicies) -> dict[str, dict[str, Any]]:
    """The factors among a broker's facts, by name, the smallest first.

    :param effective: of the topic; it says to whom factors apply.
    """
    factors = {
        name: {
            "value": float(fact.get("value", 1.0)),
            "why": str(fact.get("why", "")),
            "known": bool(fact.get("known", True)),
            "at_ms": int(fact.get("at_ms", 0)),
            "mode": str(effective.mode(name)),
        }
        for name, fact in _objects(facts, _FACTOR)
    }
    return dict(sorted(factors.items(), key=lambda item: (item[1]["value"], item[0])))


def reported_budgets(facts: Mapping[str, str]) -> dict[str, Any] | None:
    """How the budget store stands: `members`, `away`, `spends`, `error`; None if nothing is shared."""
    return next((fact for name, fact in _objects(facts, BUDGETS_FACT) if not name), None)


def reduced_rates(
    factors: Mapping[str, Mapping[str, Any]], effective: EffectivePolicies, fields: PolicyFields
) -> dict[str, Any] | None:
    """What the smallest factor leaves of the topic's rates and quotas; None if no factor reduces any.

    :param factors: from `reported_factors`.
    :return: `by`, the factor's name; `paused`, whether it stops publishing; and `rates`: by policy, the
        `full` value and what is `left` of it.
    """
    name = next(
        (key for key, it in factors.items() if it["mode"] == ModeKind.ENFORCE and it["value"] < 1), None
    )
    if name is None:
        return None
    rates = {}
    paused = factors[name]["value"] == 0
    for policy in () if paused else _QUOTAS:
        full = effective.number(policy)
        if full and effective.enforces(policy):
            left = full * factors[name]["value"]
            left = round(left) if left >= 1 else round(left, _DIGITS)
            rates[policy] = {"full": fields.text(policy, full), "left": fields.text(policy, left)}
    return {"by": name, "paused": paused, "rates": rates}


def reported_state(facts: Mapping[str, str]) -> dict[str, Any]:
    """All `factors` among a broker's facts and all `adaptive` controllers, by name, as they were reported."""
    return {"factors": dict(_objects(facts, _FACTOR)), "adaptive": dict(_objects(facts, _ADAPTIVE))}


def reported_pressures(facts: Mapping[str, str]) -> dict[str, Any]:
    """What presses on a broker, as its worker last reported it.

    :return: `factors`, each with its `factor`, its `value` from 0 (nothing passes) to 1, `why`, and `known`,
        False if data is missing; and `sources`, by which an adaptive controller goes, each with its `source`,
        `controller`, `known` and the `problem` if it is not, with the controller's `memory_pressure`.
    """
    factors = [
        {"factor": name, **{key: fact[key] for key in ("value", "why", "known", "at_ms") if key in fact}}
        for name, fact in _objects(facts, _FACTOR)
    ]
    sources: list[dict[str, Any]] = []
    for controller, fact in _objects(facts, _ADAPTIVE):
        states = fact.get("sources")
        for source, state in states.items() if isinstance(states, dict) else ():
            is_known = state == "known"
            row: dict[str, Any] = {"source": source, "controller": controller, "known": is_known}
            more: dict[str, Any] = {key: fact[key] for key in ("memory_pressure", "at_ms") if key in fact}
            sources.append({**row, "problem": "" if is_known else str(state), **more})
    return {"factors": factors, "sources": sources}


def reported_adaptive(facts: Mapping[str, str], topic: str) -> dict[str, dict[str, Any]]:
    """The states of the adaptive controllers, by name; of their topics, this one alone."""
    return {
        name: {key: _of_topic(value, topic) if key == "topics" else value for key, value in fact.items()}
        for name, fact in _objects(facts, _ADAPTIVE)
    }


def _of_topic(topics: object, topic: str) -> object:
    if not isinstance(topics, dict):
        return topics
    return {topic: topics[topic]} if topic in topics else {}


def _objects(facts: Mapping[str, str], prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The facts under a prefix that are JSON objects."""
    for key in sorted(facts):
        if key.startswith(prefix):
            try:
                fact = json.loads(facts[key])
            except ValueError:
                continue
            if isinstance(fact, dict):
                yield key.removeprefix(prefix), fact
