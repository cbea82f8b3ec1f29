"""Throttling: how long gates hold operations, and how long clients wait for answers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sluicegate_reports.transforms.packed import Names, Numbers, Topic

SHARES = (0.5, 0.9, 0.99, 0.999)


def holds(topic: Topic) -> list[dict[str, Any]]:
    """What gates held on a topic, as they announced it when they did.

    :return: `system`, `door`, `topic`, `policy`, `holds` (operations), `total_ms`, `longest_ms`.
    """
    found: dict[str | None, tuple[int, int, int]] = {}
    for piece in topic.decisions("action", "policy", "decisions", "delay"):
        held = piece.text("action").among("delay")
        policy, delay, decisions = piece.text("policy"), piece.number("delay"), piece.number("decisions")
        for name in (*policy.names, None) if held.any() else ():
            own = held & policy.among(name)
            if own.any():
                count, total, longest = found.get(name, (0, 0, 0))
                longest = max(longest, int(delay[own].max()))
                found[name] = count + int(decisions[own].sum()), total + int(delay[own].sum()), longest
    place = {"system": topic.system, "door": topic.door, "topic": topic.name}
    return [
        {**place, "policy": name, "holds": count, "total_ms": total / 1e6, "longest_ms": longest / 1e6}
        for name, (count, total, longest) in found.items()
    ]


def latencies(topic: Topic, shares: Sequence[float] = SHARES) -> list[dict[str, Any]]:
    """How long producers waited for the answer to a message that was stored.

    :return: `system`, `door`, `phase`, `topic`, `messages`, `quantiles` (in ms, one for each share, by
        nearest rank), `longest_ms`.
    """
    phases, parts = Names(), []
    for piece in topic.observations("phase", "role", "event", "latency_ns"):
        answered = piece.text("role").among("producer") & piece.text("event").among("acknowledged")
        answered &= piece.known("latency_ns")
        parts.append((phases.of(piece.text("phase"))[answered], piece.number("latency_ns")[answered]))
    if not parts:
        return []
    phase, latency_ns = (np.concatenate(each) for each in zip(*parts, strict=True))
    found = []
    for number in np.unique(phase).tolist():
        ordered = np.sort(latency_ns[phase == number])
        found.append(
            {
                "system": topic.system,
                "door": topic.door,
                "phase": phases[number],
                "topic": topic.name,
                "messages": len(ordered),
                "quantiles": [nearest_rank(ordered, share) / 1e6 for share in shares],
                "longest_ms": int(ordered[-1]) / 1e6,
            }
        )
    return found


def nearest_rank(ordered: Numbers, share: float) -> int:
    """The least of some sorted numbers that so large a share of them does not exceed."""
    return int(ordered[max(1, math.ceil(share * len(ordered))) - 1])
