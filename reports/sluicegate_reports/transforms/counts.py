"""Counts: which clients were attached at each attempt to attach, and whether its answer was right.

An attempt takes time, and clients try at once. So an attempt is judged by what is certain: one that was let
in was wrong if more than the limit were surely there when it was told so, and one that was refused was wrong
if fewer than the limit can have been there at any time of the attempt.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from sluicegate_reports.registry.arms import MEMBERS, PRODUCERS, SUBSCRIPTIONS
from sluicegate_reports.transforms import attribution
from sluicegate_reports.transforms.ahead import Ahead
from sluicegate_reports.transforms.attribution import Attempt, Rejection, Rules
from sluicegate_reports.transforms.lanes import Try, tried_at
from sluicegate_reports.transforms.packed import Part, Topic

OWN, UNCLEAR, OTHER = "own", "unclear", "other"
"""Attribution of a refusal: to the trial's policy, perhaps to it, to another one."""
_SEEN = (
    *("time_us", "client", "role", "event", "subscription", "latency_ns"),
    *("code", "text", "decision_id"),
)


class Attachments(NamedTuple):
    """Attachments in one slice of a topic."""

    seen: Sequence[Attempt]
    """Of topics where counts were tried; of others those that were refused, whose clients the log knows."""
    rejected: Sequence[Rejection]


def attachments(topic: Topic, tried: Sequence[Try], clocks: Ahead) -> Iterator[Part]:
    """Attachments, refusals and departures on a topic, by arm.

    :param tried: of counts.
    :param clocks: by how much gateways' clocks are ahead.
    """
    if not any((each.system, each.door) == topic.arm for each in tried):
        return
    events = ("attached", "attach_refused", "detached")
    seen = []
    for piece in topic.observations(*_SEEN):
        # Refusals of other topics tell which clients the log knows by name.
        rows = piece.text("event").among(*(events if tried_at(topic.topic_key, tried) else events[1:2]))
        seen += [_attempt(topic.name, row) for row in piece.rows(rows).to_pylist()]
    yield topic.arm, Attachments(seen, list(attribution.rejections(topic, clocks)))


def _attempt(topic: str | None, row: Mapping[str, Any]) -> Attempt:
    began_us = None if row["latency_ns"] is None else row["time_us"] - row["latency_ns"] // 1000
    own = {name: row[name] for name in ("role", "client", "subscription", "event")}
    refusal = {name: row[name] for name in ("code", "text", "decision_id")}
    return Attempt(topic, **own, began_us=began_us, told_us=row["time_us"], **refusal)


def attachments_together(
    key: tuple[str, str], parts: Sequence[Attachments], tried: Sequence[Try], by: Rules, *, has_log: bool
) -> Iterator[dict[str, Any]]:
    """Judge each attempt by how many were attached meanwhile, as the clients saw it.

    A subscription counts from its first consumer on and stays; producers and consumers count until they
    leave.

    :param by: see `attribution.rules`.
    :param has_log: whether there is a decision log, to tell which policy refused.
    :return: `trial`, `event` (attached or attach_refused), `whose` (OWN, UNCLEAR or OTHER; None of attached),
        `policies`, `how` and `code` of refusals, `answers`, `most` (at once, after any of them), `wrong`.
    """
    seen = [each for part in parts for each in part.seen]
    clients = {each.client for each in seen if each.event == "attach_refused"}
    log = attribution.Log((each for part in parts for each in part.rejected), clients)
    has_log = has_log and key[1] not in by.ungated
    own = [each for each in tried if (each.system, each.door) == key]
    events: dict[str | None, list[Attempt]] = {each.topic: [] for each in own}
    here = {topic: {each.policy for each in own if each.topic == topic} for topic in events}
    for attempt in seen:
        if attempt.event == "attach_refused" and attempt.topic in here:
            set_there = here[attempt.topic]
            refused = attribution.attributed(attempt, key[0], set_there, log, by, has_log=has_log)
            events[attempt.topic].append(refused)
        elif attempt.topic in here:
            events[attempt.topic].append(attempt)
    for each in own:
        yield from _judged(each, events[each.topic])


def _judged(trial: Try, events: Iterable[Attempt]) -> Iterator[dict[str, Any]]:
    role = "producer" if trial.policy == PRODUCERS else "consumer"
    rows = [
        each
        for each in events
        if each.role == role
        and trial.subscription in (None, each.subscription)
        and each.told_us < trial.end_us
    ]
    groups: dict[str | None, list[tuple[Attempt, bool]]] = {}
    for each, about_it in _about(rows, trial.policy):
        group = each.subscription if trial.policy == MEMBERS else None
        groups.setdefault(group, []).append((each, about_it))
    by_kind: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for each, most, wrong in (answer for group in groups.values() for answer in _answers(trial, group)):
        policies = None if each.policies is None else tuple(each.policies)
        kind = each.event, _whose(each, trial.policy), policies, each.how, each.code
        by_kind.setdefault(kind, []).append((most, wrong))
    for kind, answers in by_kind.items():
        yield {
            "trial": trial.trial,
            **dict(zip(("event", "whose", "policies", "how", "code"), kind, strict=True)),
            "answers": len(answers),
            "most": max(most for most, _ in answers),
            "wrong": sum(wrong for _, wrong in answers),
        }


def _whose(attempt: Attempt, policy: str) -> str | None:
    if attempt.policies is None:
        return None
    if policy not in attempt.policies:
        return OTHER
    return OWN if len(attempt.policies) == 1 and attempt.how != attribution.NO_ROW else UNCLEAR


def _about(rows: Sequence[Attempt], policy: str) -> Iterator[tuple[Attempt, bool]]:
    """Whoever joins or leaves a subscription that exists has nothing to do with their number.

    Adds whether it is about it: false of one that the limit on their number refused although its own existed.
    """
    first: dict[str | None, Attempt] = {}
    for each in sorted(rows, key=attrgetter("told_us", "client")):
        if each.event == "attached":
            first.setdefault(each.subscription, each)
    for each in rows:
        begun = first.get(each.subscription)
        if policy != SUBSCRIPTIONS:
            yield each, True
        elif each.event == "attach_refused":
            existed = begun is not None and begun.told_us <= each.since_us
            if not existed or each.policies == [SUBSCRIPTIONS]:
                yield each, not existed
        elif each is begun:
            yield each, True


class _Point(NamedTuple):
    """A moment of an event, and what it changes."""

    at_us: int
    rank: int
    """Of one time, in the order that speaks for the system."""
    number: int
    surely: int = 0
    came: int = 0
    went: int = 0


def _points(number: int, each: Attempt, policy: str) -> Iterator[_Point]:
    """The moments of an event.

    One that was turned away otherwise may have had a slot until then: a gateway let it in, the broker did
    not.
    """
    began_us, told_us = each.since_us, each.told_us
    if each.event == "attached":
        yield _Point(began_us, 3, number, came=1)
        yield _Point(told_us, 4, number, surely=1)
    elif each.event == "detached":
        yield _Point(began_us, 0, number, surely=-1)
        yield _Point(told_us, 2, number, went=1)
    else:
        other = int(_whose(each, policy) == OTHER)
        yield _Point(began_us, 1, number)
        if other:
            yield _Point(began_us, 3, number, came=1)
        yield _Point(told_us, 5, number, went=other)


def _answers(trial: Try, group: Sequence[tuple[Attempt, bool]]) -> Iterator[tuple[Attempt, int, int]]:
    """Each answer within the trial, the most that surely were attached at it, and whether it is wrong."""
    points = [point for n, (each, _) in enumerate(group) for point in _points(n, each, trial.policy)]
    surely = came = went = 0
    # Who were there, and who had left, when a refused attempt began.
    left: dict[int, tuple[int, int]] = {}
    for point in sorted(points):
        surely, came, went = surely + point.surely, came + point.came, went + point.went
        each, about_it = group[point.number]
        if each.told_us < trial.begin_us:
            continue
        if point.rank == 1:
            left[point.number] = surely, went
        elif point.rank == 4:
            yield each, surely, int(surely > trial.limit)
        elif point.rank == 5:
            there, gone = left[point.number]
            yield each, max(there, surely), int(came - gone < trial.limit or not about_it)


def folded(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The figures of one trial out of its rows of `attachments`; nothing of no rows.

    :return: `attempts`, `attached`, `refused` (by its policy), `otherwise` (surely not by it), `most`,
        `wrongly_admitted`, `wrongly_refused`, `unclear` (refusals that may be its), `doubtful` (of them,
        those that would be wrong if they were).
    """
    known = list(rows)
    if not known:
        return {}

    def total(name: str, event: str, whose: str | None = None) -> int:
        return sum(row[name] for row in known if (row["event"], row["whose"]) == (event, whose))

    refused = "attach_refused"
    attached, own, unclear = (
        total("answers", "attached"),
        total("answers", refused, OWN),
        total("answers", refused, UNCLEAR),
    )
    return {
        "attempts": attached + own + unclear,
        "attached": attached,
        "refused": own,
        "otherwise": total("answers", refused, OTHER),
        "most": max((row["most"] for row in known), default=0),
        "wrongly_admitted": total("wrong", "attached"),
        "wrongly_refused": total("wrong", refused, OWN),
        "unclear": unclear,
        "doubtful": total("wrong", refused, UNCLEAR),
    }
