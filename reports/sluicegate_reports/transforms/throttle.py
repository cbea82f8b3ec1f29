"""Throttling: how long gates hold operations, and how long clients wait for answers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sluicegate_reports.transforms.packed import TOPIC_COLUMNS, Key, Numbers, Topic

SHARES = (0.5, 0.9, 0.99, 0.999)
_NOTHING = (0, 0, 0)


class Throttled(NamedTuple):
    """Holds and latencies in one slice of a topic."""

    held: Mapping[str | None, tuple[int, int, int]]
    """By policy: operations, total and longest time in ns."""
    latency_ns: Mapping[str | None, Sequence[Numbers]]
    """By phase."""


def throttled(topic: Topic) -> Throttled:
    """What a topic, or a slice of it, tells of holds and answers."""
    return Throttled(_held(topic), _answered(topic))


def _held(topic: Topic) -> dict[str | None, tuple[int, int, int]]:
    by_policy: dict[str | None, tuple[int, int, int]] = {}
    for piece in topic.decisions("action", "policy", "decisions", "delay"):
        held = piece.text("action").among("delay")
        policy, delay, decisions = piece.text("policy"), piece.number("delay"), piece.number("decisions")
        for name in (*policy.names, None) if held.any() else ():
            own = held & policy.among(name)
            if own.any():
                held_here = int(decisions[own].sum()), int(delay[own].sum()), int(delay[own].max())
                by_policy[name] = _with(by_policy.get(name, _NOTHING), held_here)
    return by_policy


def _with(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], one[1] + other[1], max(one[2], other[2])


def _answered(topic: Topic) -> dict[str | None, list[Numbers]]:
    by_phase: dict[str | None, list[Numbers]] = {}
    for piece in topic.observations("phase", "role", "event", "latency_ns"):
        phase, latency_ns = piece.text("phase"), piece.number("latency_ns")
        answered = piece.text("role").among("producer") & piece.text("event").among("acknowledged")
        answered &= piece.known("latency_ns")
        for name in (*phase.names, None):
            own = answered & phase.among(name)
            if own.any():
                by_phase.setdefault(name, []).append(latency_ns[own])
    return by_phase


def holds(topic: Key, parts: Iterable[Throttled]) -> list[dict[str, Any]]:
    """What gates held on a topic, as they announced it when they did.

    :return: `system`, `door`, `topic`, `policy`, `holds` (operations), `total_ms`, `longest_ms`.
    """
    by_policy: dict[str | None, tuple[int, int, int]] = {}
    for name, held in (each for part in parts for each in part.held.items()):
        by_policy[name] = _with(by_policy.get(name, _NOTHING), held)
    topic_key = dict(zip(TOPIC_COLUMNS, topic, strict=True))
    return [
        {**topic_key, "policy": name, "holds": count, "total_ms": total / 1e6, "longest_ms": longest / 1e6}
        for name, (count, total, longest) in by_policy.items()
    ]


def latencies(
    topic: Key, parts: Iterable[Throttled], shares: Sequence[float] = SHARES
) -> list[dict[str, Any]]:
    """How long producers waited for the answer to a message that was stored.

    :return: `system`, `door`, `phase`, `topic`, `messages`, `quantiles` (in ms, one for each share, by
        nearest rank), `longest_ms`.
    """
    latency_ns: dict[str | None, list[Numbers]] = {}
    for name, values in (each for part in parts for each in part.latency_ns.items()):
        latency_ns.setdefault(name, []).extend(values)
    rows = []
    for name, values in latency_ns.items():
        ordered = np.sort(np.concatenate(values))
        rows.append(
            {
                **dict(zip(TOPIC_COLUMNS, topic, strict=True)),
                "phase": name,
                "messages": len(ordered),
                "quantiles": [nearest_rank(ordered, share) / 1e6 for share in shares],
                "longest_ms": int(ordered[-1]) / 1e6,
            }
        )
    return rows


def nearest_rank(ordered: Numbers, share: float) -> int:
    """The least of some sorted numbers that so large a share of them does not exceed."""
    return int(ordered[max(1, math.ceil(share * len(ordered))) - 1])
