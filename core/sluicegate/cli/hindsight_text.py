"""Text of whom a change would have held or refused in the last hour."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluicegate.cli.aligning import aligned

_MS_PER_MINUTE = 60_000


def hindsight_text(look: Mapping[str, Any]) -> list[str]:
    """What `last_hour` of a plan says, see `runtime.hindsight`."""
    if not look["known"]:
        return [f"who would have been refused is not known: {look['reason']}; {look['remedy']}"]
    text = [*_topics(look), *_counts(look)]
    if look["not_estimated"]:
        text.append(f"not estimated: {', '.join(look['not_estimated'])}")
    return text


def _topics(look: Mapping[str, Any]) -> Iterator[str]:
    minutes = round((look["to_ms"] - look["from_ms"]) / _MS_PER_MINUTE)
    if not look["topics"]:
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
            for row in look["topics"]
        ]
        yield from aligned(rows)
        if look["topics_total"] > len(look["topics"]):
            yield f"  and {look['topics_total'] - len(look['topics'])} more"
        yield from _clients(look)
    for note in look["notes"]:
        yield f"  {note}"


def _clients(look: Mapping[str, Any]) -> Iterator[str]:
    rows = [("  client", "principal", "topic", "messages", "held", "refused", "share")]
    rows += [
        (f"  {each['client']}", each["principal"] or "-", row["topic"], *_figures(each))
        for row in look["topics"]
        for each in row["clients"]
    ]
    if len(rows) > 1:
        yield from aligned(rows)


def _counts(look: Mapping[str, Any]) -> Iterator[str]:
    for row in look["counts"]:
        where = f"{row['topic']} of broker {row['broker']}"
        yield f"{where} has {row['count']} now, {row['over']} above {row['field']} {row['limit']}"


def _figures(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    share = f"{100 * row['share']:.1f} %"
    return str(row["messages"]), str(row["held"]), str(row["refused"]), share
