"""Text of whom a change would have held or refused in the last hour."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluicegate.cli.aligning import aligned

_MS_PER_MINUTE = 60_000


def hindsight_text(found: Mapping[str, Any]) -> list[str]:
    """What `last_hour` of a plan says, see `runtime.hindsight`."""
    if not found["known"]:
        return [f"who would have been refused is not known: {found['reason']}; {found['remedy']}"]
    text = [*_topics(found), *_counts(found)]
    if found["not_estimated"]:
        text.append(f"not estimated: {', '.join(found['not_estimated'])}")
    return text


def _topics(found: Mapping[str, Any]) -> Iterator[str]:
    minutes = round((found["to_ms"] - found["from_ms"]) / _MS_PER_MINUTE)
    if not found["topics"]:
        yield f"estimate: in the last {minutes} minutes, nobody would have been held or refused"
    else:
        yield f"estimate: in the last {minutes} minutes would have been held or refused"
        rows = [("  topic", "broker", "of", "limit", "messages", "held", "refused", "share")]
        rows += [
            (
                f"  {row['topic']}",
                row["broker"],
                row["operation"],
                ", ".join(row["limits"].values()),
                *_figures(row),
            )
            for row in found["topics"]
        ]
        yield from aligned(rows)
        if found["topics_total"] > len(found["topics"]):
            yield f"  and {found['topics_total'] - len(found['topics'])} more"
        yield from _clients(found)
    for note in found["notes"]:
        yield f"  {note}"


def _clients(found: Mapping[str, Any]) -> Iterator[str]:
    rows = [("  client", "principal", "topic", "messages", "held", "refused", "share")]
    rows += [
        (f"  {each['client']}", each["principal"] or "-", row["topic"], *_figures(each))
        for row in found["topics"]
        for each in row["clients"]
    ]
    if len(rows) > 1:
        yield from aligned(rows)


def _counts(found: Mapping[str, Any]) -> Iterator[str]:
    for row in found["counts"]:
        where = f"{row['topic']} of broker {row['broker']}"
        yield f"{where} has {row['count']} now, {row['over']} above {row['field']} {row['limit']}"


def _figures(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    share = f"{100 * row['share']:.1f} %"
    return str(row["messages"]), str(row["held"]), str(row["refused"]), share
