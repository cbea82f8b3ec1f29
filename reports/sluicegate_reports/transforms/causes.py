"""Causes that both logs together show: why a lane differs from its law, when, and by how much.

Each is a row: `kind`, `from_s` and `to_s` since the lane began, `messages`, and `names` of what takes part.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sluicegate_reports.transforms import moments
from sluicegate_reports.transforms.excess import excess
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.packed import Numbers, Topic
from sluicegate_reports.transforms.requests import Requests

LOG_TWICE = "log_counted_twice"
LOG_GAP = "log_gap"
NO_ANSWERS = "no_answers"
GATEWAYS = "limit_per_gateway"
POLICIES_CHANGED = "policies_changed"
LIMIT_CHANGED = "limit_changed"

_TWINS = 0.9
"""Share of rows that are there twice, of a log that was counted twice."""
_LONG_US = 1_000_000
"""A shorter silence needs no cause."""
Set: TypeAlias = Sequence[Mapping[tuple[str, int], int]]
"""See `set_in`; of each slice."""
_LACKS = 0.02
"""Of the messages: less is no gap of a log."""


def causes(
    lane: Lane, requests: Mapping[str, Requests], gateways: Mapping[str, Requests], changes: Set
) -> Iterator[dict[str, Any]]:
    """What explains a lane that is off or disputed.

    :param requests: of the lane, by source.
    :param gateways: of each gateway's log alone.
    :param changes: of all slices.
    """
    log, clients = requests.get(LOG), requests.get(CLIENTS)
    if log is not None and clients is not None:
        yield from _twice(log, clients)
        yield from _gap(log, clients, lane)
    if clients is not None:
        yield from _no_answers(log, clients, lane)
    if log is not None:
        yield from _changed(changes)
        yield from _gateways(lane, gateways)


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
    logged, seen = int(own.messages.sum()), int(clients.admitted.messages.sum())
    rows = np.stack([own.at_us, own.amount])
    _, count = np.unique(rows, axis=1, return_counts=True)
    if len(own.at_us) and count[count > 1].sum() >= _TWINS * len(own.at_us) and logged > 1.5 * seen:
        yield _cause(LOG_TWICE, int(own.at_us[0]), int(own.at_us[-1]), logged // 2)


def _gap(log: Requests, clients: Requests, lane: Lane) -> Iterator[dict[str, Any]]:
    """The longest time of which the log has nothing, and in which clients were let pass."""
    begin_us, end_us = _longest(np.concatenate([log.admitted.at_us, log.limited.from_us]), lane.length_us)
    seen = clients.admitted
    sent_us = np.maximum(seen.since_us, seen.at_us - _LONG_US)
    within = (sent_us > begin_us) & (seen.at_us < end_us)
    messages = int(seen.messages[within].sum())
    if end_us - begin_us >= _LONG_US and messages > max(1, _LACKS * int(seen.messages.sum())):
        yield _cause(LOG_GAP, begin_us, end_us, messages)


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
    index = int(np.argmax(np.diff(edges)))
    return int(edges[index]), int(edges[index + 1])


def set_in(topic: Topic, lane: Lane) -> dict[tuple[str, int], int]:
    """When each version of the policies, and each limit, decided first in a lane, or a slice of it."""
    first_us_of: dict[tuple[str, int], int] = {}
    for piece in topic.decisions("time_us", "policy_version", "policy", "limit_milli"):
        at_us = piece.number("time_us") - lane.gate_begin_us
        within = (at_us >= 0) & (at_us < lane.length_us)
        limited = within & piece.text("policy").among(lane.policy) & piece.known("limit_milli")
        for name, rows in (("policy_version", within), ("limit_milli", limited)):
            values = piece.number(name)[rows]
            for each in _different(values):
                first_us = int(at_us[rows][values == each].min())
                first_us_of[name, each] = min(first_us_of.get((name, each), first_us), first_us)
    return first_us_of


def _different(values: Numbers) -> list[int]:
    """Most often there is one, which is found sooner than by sorting."""
    if len(values) and values.min() == values.max():
        return [int(values[0])]
    return [int(each) for each in np.unique(values)]


def _changed(several: Set) -> Iterator[dict[str, Any]]:
    """Policies, or at least a limit, that changed within the lane."""
    first_us: dict[tuple[str, int], int] = {}
    for key, at_us in (each for slice_ in several for each in slice_.items()):
        first_us[key] = min(first_us.get(key, at_us), at_us)
    kinds = (("policy_version", POLICIES_CHANGED, 1), ("limit_milli", LIMIT_CHANGED, 1_000))
    for name, kind, of_one in kinds:
        changed = sorted((at_us, value) for (of, value), at_us in first_us.items() if of == name)
        if len(changed) > 1:
            values = (f"{value / of_one:g}" for _, value in changed)
            yield _cause(kind, changed[1][0], changed[-1][0], 0, *values)
            return


def _gateways(lane: Lane, gateways: Mapping[str, Requests]) -> Iterator[dict[str, Any]]:
    """Gateways that each keep the law alone."""
    laws = {name: excess([moments.of_log(each)], lane) for name, each in gateways.items()}
    known = {name: law for name, law in laws.items() if law is not None}
    if len(known) > 1 and all(law["excess"] <= 1 for law in known.values()):
        messages = sum(law["admitted"] for law in known.values())
        yield _cause(GATEWAYS, 0, lane.length_us, messages, *sorted(known))
