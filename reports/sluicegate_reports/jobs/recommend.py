"""Recommends limits per topic from a recorded baseline, with the demand of each principal."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from sluicegate.decisions.reading import coded_tables
from sluicegate_reports import registry
from sluicegate_reports.model.listing import Listed
from sluicegate_reports.model.results import Results, Table, Value, of_log
from sluicegate_reports.recommending.baseline import COLUMNS, TEXTS, Baseline, Row, topic_of
from sluicegate_reports.recommending.coverage import Coverage, unseen
from sluicegate_reports.recommending.patterns import merged
from sluicegate_reports.recommending.policy_file import (
    MAX_TOPICS,
    Advice,
    Broker,
    Limit,
    Plan,
    count_of,
    limit_of,
)
from sluicegate_reports.spark.log_files import DECISIONS, LeftOut, span, tables
from sluicegate_reports.spark.progress import tell
from sluicegate_reports.spark.spools import whole_files
from sluicegate_reports.transforms.distribution import MEASURES

HEAD_ROOM = 2.0
"""As the policies' own advice: twice the usual peak leaves room, and still stops a runaway client."""
_RATES = {
    "publish": ("max_publish_rate", "max_publish_rate_bytes"),
    "dispatch": ("max_dispatch_rate", "max_dispatch_rate_bytes"),
}
_COUNTS = {
    "producers": ("max_producers_per_topic", "producers in one minute"),
    "consumers": ("max_consumers_per_topic", "consumers in one minute"),
    "subscriptions": ("max_subscriptions_per_topic", "subscriptions"),
    "subscription_consumers": ("max_consumers_per_subscription", "consumers of a subscription in one minute"),
}
_NAME = re.compile(r"[^\s*]+")
"""Of a topic that a file can name: a space is not allowed there, and a star is a pattern's."""
_NAMED = 5
"""Principals told for each topic, in the file and in the findings, by operation; topics told in a note."""


_RECORD = (
    "record a baseline first, with `decisions.enabled`, and give the directory of that log; "
    "`decisions.detail: full` tells sizes and clients too"
)


class RecommendError(Exception):
    """Nothing can be recommended; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A policy file, and what it comes from."""

    plan: Plan
    results: Results


def recommend(directory: Listed, *, head_room: float = HEAD_ROOM, apply: bool = False) -> Recommendation:
    """Measure a log and recommend limits for its topics. It needs no Spark.

    :param directory: the decision log's, or the files of several.
    :param head_room: factor above the 99th percentile, 1 or more.
    :param apply: whether the limits are to apply at once; else they are only observed.
    :raises RecommendError: if the log has no traffic.
    :raises LocationError: if a file is damaged inside, or a store fails.
    """
    measured, left = measure(directory)
    left_out = [f"{each.path} is left out: it {each.reason}." for each in left]
    if not measured.rows:
        raise RecommendError(
            "\n".join([*left_out, f"there is not one decision in {str(directory)!r}: {_RECORD}"])
        )
    source = f"{directory} ({measured.rows:,} rows)"
    return recommended(measured, source, left_out, head_room=head_room, apply=apply)


def measure(directory: Listed) -> tuple[Baseline, list[LeftOut]]:
    """What is measured of all files of a log, and those that are left out."""
    measured = Baseline()

    def read(spool: Path) -> int:
        before = measured.rows
        for table in coded_tables(spool):
            measured.add(table.select(COLUMNS))
        return measured.rows - before

    whole, left_out = whole_files(directory, DECISIONS, span, read)
    files = sorted((times[0], str(file), file) for file, times in whole.items() if times is not None)
    for number, (first, _, file) in enumerate(files):
        tell(number, len(files))
        # Of the seconds before all the files that are left, nothing comes any more.
        measured.complete(int(first.timestamp()))
        for table in tables(file, COLUMNS, DECISIONS, texts=TEXTS):
            measured.add(table)
    measured.complete()
    return measured, left_out


def recommended(
    measured: Baseline, source: str, notes: Sequence[str] = (), *, head_room: float, apply: bool
) -> Recommendation:
    """As `recommend`, from measurements of complete seconds."""
    of_topics = _grouped(measured.of_topics())
    if not of_topics:
        raise RecommendError("\n".join([*notes, f"{source} has no publish and no dispatch: {_RECORD}"]))
    of_principals = _grouped(measured.of_principals(_NAMED))
    counted = {topic_of(row): row for row in measured.counts()}
    sized = {topic_of(row): row for row in measured.sizes()}
    topics = sorted((topic for topic in of_topics if _NAME.fullmatch(topic[3])), key=str)
    advice = _by_name(
        _advice(
            topic,
            of_topics[topic],
            of_principals.get(topic, []),
            counted.get(topic),
            sized.get(topic),
            head_room,
        )
        for topic in topics
    )
    advice = merged(advice, measured.topics())
    reach = Coverage(measured.first_s, measured.last_s)
    left_out = [
        *(
            (topic[3], "no policy file can hold its name")
            for topic in sorted(of_topics.keys() - set(topics), key=str)
        ),
        *((each.topic, f"there are more than {MAX_TOPICS:,}") for each in advice[MAX_TOPICS:]),
    ]
    remarks = [*notes, reach.warning(), *_gaps(topics, sized), *unseen(of_topics), *_shared(advice)]
    remarks = [note for note in (*remarks, _without_limits(left_out)) if note]
    brokers = tuple(_brokers(sorted({(topic[0], topic[1]) for topic in topics})))
    plan = Plan(brokers, tuple(advice), head_room, apply, source, tuple(remarks))
    by_topic, by_principal = ([*chain(*rows.values())] for rows in (of_topics, of_principals))
    return Recommendation(plan, _findings(plan, reach.text, by_topic, by_principal, left_out))


def _brokers(brokers: Sequence[tuple[str, str]]) -> Iterator[Broker]:
    """An entry for each system and name; shared names are made unique, as a file requires."""
    names = [name for _, name in brokers]
    for system, name in brokers:
        own = name if names.count(name) == 1 else f"{name}-{system}"
        yield Broker(own, system, registry.system(system).port)


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, ...], list[Row]]:
    by_topic: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        by_topic.setdefault(topic_of(row), []).append(row)
    return by_topic


def _without_limits(left_out: Sequence[tuple[str, str]]) -> str:
    """Name topics and patterns that get no limits; empty if there are none."""
    if not left_out:
        return ""
    first = ", ".join(f"{name!r} ({why})" for name, why in left_out[:_NAMED])
    more = f", and {len(left_out) - _NAMED:,} more" if len(left_out) > _NAMED else ""
    return f"No limits for {first}{more}."


def _gaps(topics: Sequence[tuple[str, ...]], sized: Mapping[tuple[str, ...], Row]) -> Iterator[str]:
    missing = [topic[3] for topic in topics if topic not in sized]
    if missing:
        yield (
            f"{len(missing):,} topics were recorded in windows only (`detail: summary`): no limits of sizes "
            f"and counts for them, such as {missing[0]}."
        )


def _shared(advice: Sequence[Advice]) -> Iterator[str]:
    patterns = [each for each in advice if each.covers]
    if patterns:
        topics = {topic for each in patterns for topic in each.covers}
        yield (
            f"{len(topics):,} topics share {len(patterns):,} patterns, as limits of theirs are alike; others "
            "are in entries of their own. A new topic whose name fits a pattern gets its limits."
        )


def _advice(
    topic: tuple[str, ...],
    rates: Sequence[Row],
    principals: Sequence[Row],
    counted: Row | None,
    sized: Row | None,
    head_room: float,
) -> Advice:
    limits: list[Limit | None] = []
    for row in sorted(rates, key=lambda row: str(row["operation"]), reverse=True):
        for policy, what in zip(_RATES[row["operation"]], ("messages", "bytes"), strict=True):
            limits.append(limit_of(policy, _measured(row, what), head_room, f"{what}/s"))
    if sized is not None:
        limits.append(limit_of("max_message_size", sized, head_room, "bytes"))
    if counted is not None:
        limits += [count_of(name, counted[key], head_room, what) for key, (name, what) in _COUNTS.items()]
    remarks = tuple(_remarks(topic, rates, principals))
    return Advice(topic[3], tuple(limit for limit in limits if limit is not None), remarks)


def _measured(row: Row, what: str) -> dict[str, float]:
    return {name: float(row[f"{what}_{name}"]) for name in MEASURES}


def _remarks(topic: tuple[str, ...], rates: Sequence[Row], principals: Sequence[Row]) -> Iterator[str]:
    seconds = max(row["seconds"] for row in rates)
    yield f"{topic[0]}, broker {topic[1]}: {seconds:,} seconds with traffic"
    named = [row for row in principals if row["principal"] is not None]
    for row in sorted(named, key=lambda row: -row["messages_p99"])[:_NAMED]:
        yield (
            f"{row['principal']}, {row['operation']}: p99 {row['messages_p99']:,} messages/s, "
            f"peak {row['messages_peak']:,}"
        )


def _by_name(advice: Iterator[Advice]) -> list[Advice]:
    """One entry for each name: where several brokers have a topic of one name, the higher limits hold."""
    by_name: dict[str, Advice] = {}
    for each in advice:
        known = by_name.get(each.topic)
        if known is None:
            by_name[each.topic] = each
            continue
        limits = {limit.policy: limit for limit in known.limits}
        for limit in each.limits:
            if limit.policy not in limits or limits[limit.policy].value < limit.value:
                limits[limit.policy] = limit
        by_name[each.topic] = Advice(each.topic, tuple(limits.values()), (*known.remarks, *each.remarks))
    return list(by_name.values())


def _findings(
    plan: Plan,
    reach: str,
    of_topics: Sequence[Row],
    of_principals: Sequence[Row],
    left_out: Sequence[tuple[str, str]],
) -> Results:
    limits: tuple[tuple[Value, ...], ...] = tuple(
        (each.topic, limit.policy, limit.value, limit.why) for each in plan.advice for limit in each.limits
    )
    topics = {topic for each in plan.advice for topic in each.covers or (each.topic,)}
    return of_log(
        title="Limits from a baseline",
        summary=f"{len(limits):,} limits for {len(topics):,} topics, "
        + ("applied at once." if plan.apply else "only observed at first."),
        facts={"log": plan.source, "baseline": reach, "head-room": f"{plan.head_room:g}"},
        tables=(
            Table(("topic", "policy", "limit", "why"), limits, "limits", "Recommended"),
            _rates_table("Rates by topic, over seconds with traffic", "rates", of_topics, ()),
            _rates_table(
                f"Rates by principal, the {_NAMED} highest of each topic",
                "principals",
                of_principals,
                ("principal",),
            ),
            *([Table(("topic", "why"), tuple(left_out), "left_out", "Without limits")] if left_out else ()),
        ),
        notes=plan.notes,
    )


def _rates_table(title: str, name: str, rows: Sequence[Row], keys: tuple[str, ...]) -> Table:
    who = ("system", "topic", *keys, "operation", "seconds")
    measures = [f"{what}_{measure}" for what in ("messages", "bytes") for measure in MEASURES]
    values: list[tuple[Value, ...]] = [tuple(row[column] for column in (*who, *measures)) for row in rows]
    headings = [f"{m.split('_')[1]} ({m.split('_')[0]}/s)" for m in measures]
    return Table((*who, *headings), tuple(sorted(values, key=str)), name, title)
