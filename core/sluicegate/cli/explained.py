"""Text of `sluicegate explain` about the effective policies of a topic."""

from collections.abc import Mapping
from typing import Any

from sluicegate.cli.aligning import aligned
from sluicegate.cli.following import adaptive_lines, factor_lines

_PER_GATE = "each gateway process counts limits on its own"


def as_text(explained: Mapping[str, Any], origin: str, now_ms: int) -> list[str]:
    """Format the effective policies of a topic, a line each.

    :param explained: from `runtime.effective`.
    :param origin: where they come from: the running gateway, or the file.
    """
    broker = f"{explained['broker']} ({explained['system']})"
    text = [f"topic {explained['topic']}, namespace {explained['namespace']}, broker {broker}", origin]
    if explained["observe_only"]:
        text.append("observe only: everything is recorded, nothing is applied")
    rows = [("policy", "value", "level", "source", "where")]
    rows += [
        (field, found["text"], found["level"] or "-", found["source"], _where(found))
        for field, found in explained["policies"].items()
    ]
    text += ["", *aligned(rows), ""]
    if explained["unset"]:
        text.append(f"not set, so without effect: {', '.join(explained['unset'])}")
    text.append(_PER_GATE)
    return text + factor_lines(explained, now_ms) + adaptive_lines(explained, now_ms)


def _where(found: Mapping[str, Any]) -> str:
    notes = [found["location"] or "built in"]
    if found["ceiling"]:
        notes.append(f"tightened by {found['ceiling']}")
    if found["applies"] == "not applicable":
        notes.append("not applicable to this broker: does nothing")
    return ", ".join(notes)
