"""Writes limits as a policy file, with the reasons as comments."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluicegate_reports.model.quantities import together

MAX_TOPICS = 10_000
"""Topics and patterns that get limits; many more would not fit into the 16 MiB that a file may have."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One recommended limit."""

    policy: str
    value: int
    """In the policy's own unit."""
    why: str
    """Its justification, in one line."""


@dataclass(frozen=True, slots=True)
class Advice:
    """An entry for one topic, or for all topics that match a pattern.

    A topic may be in several, each with other policies.
    """

    topic: str
    limits: tuple[Limit, ...]
    remarks: tuple[str, ...] = ()
    """Further lines: its principals, and what is unknown."""
    covers: tuple[str, ...] = ()
    """Topics of the log that a pattern matches; empty for the entry of one topic."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker entry whose decisions the log holds."""

    name: str
    system: str
    port: int
    """On which such brokers usually listen."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of the file."""

    brokers: tuple[Broker, ...]
    advice: tuple[Advice, ...]
    head_room: float
    apply: bool
    """False: the policies are only observed at first."""
    source: str
    """The source of the recommendation, for the head of the file."""
    notes: tuple[str, ...] = field(default=())


def limit_of(policy: str, measured: Mapping[str, float], head_room: float, unit: str) -> Limit | None:
    """Head-room above the 99th percentile, and never below the peak; None where nothing was measured.

    :param measured: `p50`, `p95`, `p99`, `peak`.
    :param head_room: factor, 1 or more.
    :param unit: of `measured`, for the justification.
    """
    if measured["peak"] <= 0:
        return None
    value = round_up(max(measured["p99"] * head_room, measured["peak"]))
    names = ("p50", "p95", "p99", "peak")
    figures = together([round(measured[name]) for name in names], unit)
    *first, last = (figure.partition(" ") for figure in figures)
    percentiles = ", ".join(f"{name} {figure[0]}" for name, figure in zip(names, [*first, last], strict=True))
    raised = measured["peak"] > measured["p99"] * head_room
    why = f"{percentiles} {last[2]}; " + ("the peak" if raised else f"{head_room:g} x p99")
    return Limit(policy, value, why)


def count_of(policy: str, most: int, head_room: float, what: str) -> Limit | None:
    """Head-room above the highest count; None if that is 0."""
    if most <= 0:
        return None
    return Limit(policy, math.ceil(most * head_room), f"at most {most:,} {what}; {head_room:g} x that")


def round_up(value: float) -> int:
    """Round up to two significant digits, for readability."""
    if value <= 10:
        return math.ceil(value)
    step: int = 10 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / step) * step


def policy_file(plan: Plan) -> str:
    """The file, as YAML that `sluicegate check` accepts."""
    lines = [
        f"# Limits recommended from {_one_line(plan.source)}.",
        f"# Each is {plan.head_room:g} times what was usual (p99 of seconds in which anything came), and",
        "# never below the peak. After a quiet time a second's worth passes at once (burst_seconds: 1).",
        *(f"# Note: {_one_line(note)}" for note in plan.notes),
        "#",
        *_rollout(plan),
        "brokers:",
    ]
    for port, broker in enumerate(plan.brokers, 9192):
        lines += [
            f"- name: {_text(broker.name)}",
            f"  system: {broker.system}",
            f'  bootstrap: ["127.0.0.1:{broker.port}"]  # put your brokers here',
            f"  listen: {{port: {port}}}",
        ]
        if not plan.apply:
            lines.append("  observe_only: true  # take this line away to apply the limits")
    lines += ["policies:", *_topics(plan.advice)]
    return "\n".join(lines) + "\n"


def _rollout(plan: Plan) -> Iterator[str]:
    if plan.apply:
        return
    yield "# Nothing is refused or delayed yet (observe_only). A way to put it into force:"
    yield "# 1. run the gateway with this file, and look at what would have been refused: rows of the"
    yield "#    decision log whose action begins with would_, or `sluicegate report replay LOG THIS_FILE`;"
    yield "# 2. write `mode: observe` at the broker level of the policies instead of observe_only, and"
    yield "#    promote them one by one: `sluicegate policies promote`."


def _topics(advice: Sequence[Advice]) -> Iterator[str]:
    if not advice:
        yield "  broker: {}"
        return
    yield "  topics:"
    for each in advice[:MAX_TOPICS]:
        yield f"  - name: {_text(each.topic)}"
        yield from (f"    # {_one_line(remark)}" for remark in each.remarks)
        for limit in each.limits:
            yield f"    {limit.policy}: {limit.value}  # {_one_line(limit.why)}"


def _text(value: str) -> str:
    """A string as YAML; JSON's form is one of YAML's."""
    return json.dumps(value)


def _one_line(text: str) -> str:
    """Replace unprintable characters by spaces, so that text from a log cannot end a comment."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
