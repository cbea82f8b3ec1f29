"""Causes that both logs together show: why a lane differs from its law, when, and by how much.

Each is a row: `kind`, `from_s` and `to_s` since the lane began, `messages`, and `names` of what takes part.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sluicegate_reports.transforms import flows, moments
from sluicegate_reports.transforms.excess import excess
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.packed import Numbers, Topic
from sluicegate_reports.transforms.requests import Gathered, Requests

LOG_TWICE = "log_counted_twice"
LOG_GAP = "log_gap"
NO_ANSWERS = "no_answers"
GATEWAYS = "limit_per_gateway"
POLICIES_CHANGED = "policies_changed"
CLOCK_STEPPED = "clock_stepped"

_TWINS = 0.9
"""Share of rows that are there twice, of a log that was counted twice."""
_LONG_US = 1_000_000
"""A shorter silence needs no cause."""
_FAR_US = 1 << 62
_LACKS = 0.02
"""Of the messages: less is no gap of a log."""


def causes(topic: Topic, lane: Lane, requests: Mapping[str, Requests]) -> Iterator[dict[str, Any]]:
    """What explains a lane that is off or disputed.

    :param requests: of the lane, by source.
    """
    log, clients = requests.get(LOG), requests.get(CLIENTS)
    if log is not None and clients is not None:
        yield from _twice(log, clients)
        yield from _set_back(topic, lane) or _gap_or_step(topic, log, clients, lane)
    if clients is not None:
        yield from _no_answers(log, clients, lane)
    if log is not None:
        yield from _gateways(topic, lane)


def _cause(kind: str, from_us: int, to_us: int, messages: int, *names: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "from_s": from_us / 1e6,
        "to_s": to_us / 1e6,
        "messages": messages,
        "names": list(names),
    }


def _twice(log: Requests, clients: Requests) -> Iterator[dict[str, Any]]:
    own = log.admitted
    told, seen = int(own.messages.sum()), int(clients.admitted.messages.sum())
    rows = np.stack([own.at_us, own.amount])
    _, count = np.unique(rows, axis=1, return_counts=True)
    if len(own.at_us) and count[count > 1].sum() >= _TWINS * len(own.at_us) and told > 1.5 * seen:
        yield _cause(LOG_TWICE, int(own.at_us[0]), int(own.at_us[-1]), told // 2)


def _gap(log: Requests, clients: Requests, lane: Lane) -> Iterator[dict[str, Any]]:
    """The longest time of which the log has nothing, and in which clients were let pass."""
    begin_us, end_us = _longest(np.concatenate([log.admitted.at_us, log.limited.from_us]), lane.length_us)
    seen = clients.admitted
    sent_us = np.maximum(seen.since_us, seen.at_us - _LONG_US)
    within = (sent_us > begin_us) & (seen.at_us < end_us)
    messages = int(seen.messages[within].sum())
    if end_us - begin_us >= _LONG_US and messages > max(1, _LACKS * int(seen.messages.sum())):
        yield _cause(LOG_GAP, begin_us, end_us, messages)


def _gap_or_step(topic: Topic, log: Requests, clients: Requests, lane: Lane) -> Iterator[dict[str, Any]]:
    """A log that lacks nothing in all has a gap where its clock was set forward."""
    for gap in _gap(log, clients, lane):
        yield {**gap, "kind": CLOCK_STEPPED} if _is_complete(topic, lane) else gap


def _is_complete(topic: Topic, lane: Lane) -> bool:
    """Whether the log tells of all messages of the topic that clients saw, at whatever times."""
    always = lane._replace(begin_us=0, gate_begin_us=0, end_us=_FAR_US, gate_end_us=_FAR_US)
    told = {LOG: 0, CLIENTS: 0}
    for _, source, found in flows.of_topic(topic, [always]):
        told[source] += int(found.messages[found.are(flows.ADMITTED)].sum())
    return told[LOG] >= (1 - _LACKS) * told[CLIENTS] - 1


def _set_back(topic: Topic, lane: Lane) -> list[dict[str, Any]]:
    """The farthest step back of a gateway's clock: it writes decisions in the order in which it took them."""
    back_us, at_us = -_LONG_US, 0
    for piece in topic.decisions("time_us", "gateway"):
        gate = piece.text("gateway")
        for name in gate.names:
            own_us = piece.number("time_us")[gate.among(name)] - lane.gate_begin_us
            own_us = own_us[(own_us >= 0) & (own_us < lane.length_us)]
            if len(own_us) > 1:
                place = int(np.argmin(np.diff(own_us)))
                back_us, at_us = min(
                    (back_us, at_us), (int(own_us[place + 1] - own_us[place]), int(own_us[place]))
                )
    return [_cause(CLOCK_STEPPED, at_us, at_us + back_us, 0)] if at_us else []


def _no_answers(log: Requests | None, clients: Requests, lane: Lane) -> Iterator[dict[str, Any]]:
    """The longest time in which clients asked and nobody got an answer, unless a gateway held them."""
    begin_us, end_us = _longest(clients.asked.to_us, lane.length_us)
    asked = int(np.count_nonzero((clients.asked.from_us >= begin_us) & (clients.asked.from_us < end_us)))
    failed = int(np.count_nonzero((clients.failed_us > begin_us) & (clients.failed_us <= end_us + _LONG_US)))
    if log is not None:
        held = (log.limited.from_us < end_us) & (log.limited.to_us > begin_us + _LONG_US)
        passed = (log.admitted.at_us > begin_us + _LONG_US) & (log.admitted.at_us < end_us)
        explained = bool(held.any() or passed.any())
    else:
        explained = not failed  # natively a broker may have held them
    if end_us - begin_us >= _LONG_US and asked and not explained:
        yield _cause(NO_ANSWERS, begin_us, end_us, failed)


def _longest(at_us: Numbers, length_us: int) -> tuple[int, int]:
    """The longest time without any of these, within the lane."""
    edges = np.concatenate([[0], np.sort(at_us), [length_us]])
    place = int(np.argmax(np.diff(edges)))
    return int(edges[place]), int(edges[place + 1])


def _gateways(topic: Topic, lane: Lane) -> Iterator[dict[str, Any]]:
    """Gateways that each keep the law alone, and policies that changed within the lane."""
    by_gate: dict[str, Gathered] = {}
    versions: dict[int, int] = {}
    for piece in topic.decisions(*flows.DECIDED, "gateway", "policy_version"):
        at_us = piece.number("time_us") - lane.gate_begin_us
        within = (at_us >= 0) & (at_us < lane.length_us)
        version = piece.number("policy_version")
        for each in np.unique(version[within]).tolist():
            first_us = int(at_us[within & (version == each)].min())
            versions[each] = min(versions.get(each, first_us), first_us)
        gate = piece.text("gateway")
        for name in gate.names:
            for _, found in flows.from_decisions(piece.where(gate.among(name)), [lane]):
                by_gate.setdefault(name, Gathered(LOG)).add(found)
    if len(versions) > 1:
        changed = sorted(versions.items(), key=lambda told: told[1])
        names = (str(version) for version, _ in changed)
        yield _cause(POLICIES_CHANGED, changed[1][1], changed[-1][1], 0, *names)
    told = {name: excess(moments.of_log(each.requests()), lane) for name, each in by_gate.items()}
    known = {name: found for name, found in told.items() if found is not None}
    if len(known) > 1 and all(found["excess"] <= 1 for found in known.values()):
        messages = sum(found["admitted"] for found in known.values())
        yield _cause(GATEWAYS, 0, lane.length_us, messages, *sorted(known))
