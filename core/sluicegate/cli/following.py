"""Output of `sluicegate explain` for factors and adaptive rates, from the facts that the gateway stores."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from sluicegate.config.fields import PolicyFields
from sluicegate.model import EffectivePolicies

FACTOR = "factor."
ADAPTIVE = "adaptive."
_QUOTAS = (
    "max_publish_rate",
    "max_publish_rate_bytes",
    "publish_quota",
    "publish_quota_bytes",
    "principal_publish_quota",
    "principal_publish_quota_bytes",
)
"""The rates and quotas that factors reduce."""


@dataclass(frozen=True, slots=True)
class RememberedFactor:
    """A factor as the gateway last stored it."""

    name: str
    value: float
    why: str
    known: bool
    at_ms: int
    observe_only: bool
    """True if it is observe-only on this topic."""


def remembered_factors(facts: Mapping[str, str], effective: EffectivePolicies) -> list[RememberedFactor]:
    """The factors among a broker's facts, the smallest first."""
    found = [
        RememberedFactor(
            name,
            float(fact.get("value", 1.0)),
            str(fact.get("why", "")),
            bool(fact.get("known", True)),
            int(fact.get("at_ms", 0)),
            effective.observes(name),
        )
        for name, fact in _objects(facts, FACTOR)
    ]
    return sorted(found, key=lambda factor: (factor.value, factor.name))


def factor_lines(
    factors: list[RememberedFactor], effective: EffectivePolicies, fields: PolicyFields, now_ms: int
) -> list[str]:
    """Format each factor, then the rates that the smallest one leaves."""
    if not factors:
        return []
    width = max(len(factor.name) for factor in factors)
    lines = ["", "factors, as last reported by the gateway:"]
    for factor in factors:
        notes = [] if factor.known else ["data is missing"]
        notes += ["only observed"] if factor.observe_only else []
        notes += [factor.why] if factor.why else []
        notes.append(f"reported {_age(now_ms - factor.at_ms)} ago")
        lines.append(f"  {factor.name.ljust(width)}  {factor.value:.2f}  {'; '.join(notes)}")
    applied = [factor for factor in factors if not factor.observe_only and factor.value < 1]
    if applied:
        lines += _shares(applied[0], effective, fields)
    return lines


def _shares(smallest: RememberedFactor, effective: EffectivePolicies, fields: PolicyFields) -> Iterator[str]:
    if smallest.value == 0:
        yield f"  publishing is paused by {smallest.name}"
        return
    rates = [name for name in _QUOTAS if effective.number(name)]
    rates = [name for name in rates if not effective.flag(f"observe_only.{name}")]
    if not rates:
        yield "  no rate or quota is set, so there is nothing to reduce; 0 would pause publishing"
    for name in rates:
        full = effective.number(name)
        share = fields.text(name, round(full * smallest.value))
        yield f"  {name} {fields.text(name, int(full))} x {smallest.value:.2f} = {share} ({smallest.name})"


def adaptive_lines(facts: Mapping[str, str], topic: str, now_ms: int) -> list[str]:
    """Format the state of the adaptive controller, and its effect on the topic."""
    lines = []
    for name, fact in _objects(facts, ADAPTIVE):
        scalars = [f"{key} {value}" for key, value in fact.items() if _is_plain(value) and key != "at_ms"]
        scalars.append(f"reported {_age(now_ms - int(fact.get('at_ms', now_ms)))} ago")
        lines += ["", f"adaptive {name}, as last reported by the gateway: {', '.join(scalars)}"]
        topics = fact.get("topics")
        if isinstance(topics, dict) and isinstance(topics.get(topic), dict):
            lines.append(
                f"  this topic: {', '.join(f'{key} {value}' for key, value in topics[topic].items())}"
            )
    return lines


def as_json(factors: list[RememberedFactor], facts: Mapping[str, str]) -> dict[str, Any]:
    """The same as JSON: `factors` by name, and `adaptive` as stored."""
    return {
        "factors": {
            factor.name: {key: value for key, value in asdict(factor).items() if key != "name"}
            for factor in factors
        },
        "adaptive": dict(_objects(facts, ADAPTIVE)),
    }


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


def _is_plain(value: object) -> bool:
    return value != "" and isinstance(value, str | int | float)


def _age(ms: int) -> str:
    seconds = max(0, ms) // 1000
    return f"{seconds} s" if seconds < 120 else str(timedelta(seconds=seconds))
