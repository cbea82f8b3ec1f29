"""Text of `sluicegate policies`: settings, plans and the history."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sluicegate.cli.aligning import aligned
from sluicegate.cli.hindsight_text import hindsight_text


def settings_text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each setting."""
    table = [("level", "name", "policy", "value", "source", "where")]
    table += [
        (
            _level(row),
            row["name"] or "-",
            row["field"],
            row["text"],
            row["source"] + (", locked" if row["locked"] else ""),
            row["location"] or "-",
        )
        for row in rows
    ]
    return aligned(table)


def changes_text(changes: Iterable[Mapping[str, Any]], indent: str = "") -> list[str]:
    """A line for each change, from what to what."""
    rows = [
        (
            indent + change["place"],
            change["field"],
            f"{change['old_text']} -> {change['new_text']}",
        )
        for change in changes
    ]
    return aligned(rows) if rows else []


def plan_text(plan: Mapping[str, Any]) -> list[str]:
    """The lines for a planned change."""
    if not plan["changes"]:
        return ["nothing would change"]
    text = ["would change:", *changes_text(plan["changes"], "  ")]
    return [*text, *_topics_text(plan), *hindsight_text(plan["last_hour"])]


def _topics_text(plan: Mapping[str, Any]) -> list[str]:
    if not plan["topics_known"]:
        return ["no topics in use are known: no gateway is running, or no client is connected"]
    changed, known = plan["topics_changed"], plan["topics_known"]
    text = [f"of {known} topics in use, {changed} would have other policies"]
    if plan["topics"]:
        rows = [("  topic", "broker", "policy", "now", "then", "use now")]
        rows += [
            (
                f"  {row['topic']}",
                row["broker"],
                row["field"],
                row["before"],
                row["after"],
                row["use_text"] or "-",
            )
            for row in plan["topics"]
        ]
        text += aligned(rows)
    shown = len({(row["broker"], row["topic"]) for row in plan["topics"]})
    if changed > shown:
        text.append(f"  and {changed - shown} more")
    return text


def done_text(done: Mapping[str, Any], origin: str) -> list[str]:
    """The lines for a change that was made."""
    if not done["changes"]:
        return [f"nothing changed: {origin} has these policies already"]
    where = f"revision {done['revision']}, policies {done['version']}, {origin}"
    return [*changes_text(done["changes"]), where]


def history_text(revisions: Sequence[Mapping[str, Any]]) -> list[str]:
    """The revisions, each with its changes below."""
    if not revisions:
        return ["no policy was changed yet"]
    text = []
    for revision in revisions:
        reason = f": {revision['reason']}" if revision["reason"] else ""
        kind = "file" if revision["source"] == "file" else "store"
        version = revision["policies"] or "-"
        head = f"{revision['number']}  {revision['at']}  {kind}  policies {version}"
        text += [f"{head}  {revision['actor']}{reason}", *changes_text(revision["changes"], "    ")]
    return text


def _level(row: Mapping[str, Any]) -> str:
    if row["level"] == "broker":
        return str(row["place"])
    return f"{row['level']} of {row['broker']}" if row["broker"] else str(row["level"])
