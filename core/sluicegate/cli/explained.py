"""Text of `sluicegate explain` about the effective policies of a topic."""

from collections.abc import Mapping, Sequence
from typing import Any

from sluicegate.cli.aligning import aligned
from sluicegate.cli.following import adaptive_lines, factor_lines

_NAMED = 3
_PER_GATE = "each gateway process counts limits on its own"


def as_text(
    explained: Mapping[str, Any], origin: str, now_ms: int, *, with_defaults: bool = False
) -> list[str]:
    """Format the effective policies of a topic, a line each.

    :param explained: from `runtime.effective`.
    :param origin: where they come from: the running gateway, or the file.
    :param with_defaults: whether to show what no level sets, too.
    """
    broker = f"{explained['broker']} ({explained['system']})"
    text = [f"topic {explained['topic']}, namespace {explained['namespace']}, broker {broker}", origin]
    if explained["observe_only"]:
        text.append("observe only: everything is recorded, nothing is applied")
    use = explained.get("use") or None
    head = ("policy", "value", "level", "source", "where")
    rows: list[tuple[str, ...]] = [head if use is None else (*head[:2], "use now", *head[2:])]
    rows += [
        (
            field,
            setting["text"],
            *(() if use is None else (use.get(field, "-"),)),
            setting["level"] or "-",
            setting["source"],
            _where(setting),
        )
        for field, setting in explained["policies"].items()
        if with_defaults or setting["source"] != "default" or setting["ceiling"]
    ]
    text += ["", *(aligned(rows) if len(rows) > 1 else ["no level sets a policy for it"]), ""]
    text += _scopes(explained["scopes"])
    if with_defaults and explained["unset"]:
        text.append(f"not set, so without effect: {', '.join(explained['unset'])}")
    if not with_defaults:
        text.append("defaults, and what is not set: --all")
    if explained["unmatched"]:
        names = unmatched_text(explained["unmatched"])
        text.append(f"note: {names} can match nothing on this broker: {explained['unmatched'][0]['rule']}")
    text.append(_shared(explained.get("budgets")))
    return text + factor_lines(explained, now_ms) + adaptive_lines(explained, now_ms)


def _shared(budgets: Mapping[str, Any] | None) -> str:
    """With whom limits are shared, and what holds while their store is away."""
    if budgets is None:
        return _PER_GATE
    if not budgets["away"] and not budgets["members"]:
        return "the budget store has not answered yet, so what is under a rate or quota waits"
    if not budgets["away"]:
        many = "s" * (budgets["members"] != 1)
        return f"rates, quotas and counts are shared by {budgets['members']} worker{many}"
    spent = {
        "share": f"1/{budgets['members']} of each rate and quota holds here",
        "open": "no rate or quota holds",
        "pause": "what is under a rate or quota waits",
    }
    return f"the budget store is away, so {spent[budgets['spends']]} until it answers: {budgets['error']}"


def _scopes(scopes: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each scope of the topic sets, which those in it obey instead."""
    text = []
    for scope in scopes:
        text.append(f"for {scope['text']}{' (applied above)' if scope['applied'] else ''}:")
        rows = [
            (f"  {field}", setting["text"], setting["level"], _where({**setting, "scope": ""}))
            for field, setting in scope["policies"].items()
        ]
        text += [*(aligned(rows) if rows else ["  nothing that differs"]), ""]
    return text


def _where(setting: Mapping[str, Any]) -> str:
    notes = [setting["location"] or "built in"]
    if setting["scope"]:
        notes.append(f"for {setting['scope']}")
    if setting["ceiling"]:
        notes.append(f"tightened by {setting['ceiling']}")
    if setting["applies"] == "not applicable":
        notes.append("not applicable to this broker: does nothing")
    return ", ".join(notes)


def unmatched_text(layers: Sequence[Mapping[str, str]]) -> str:
    """Name a few of them: `namespace 'orders', topic 'a' and 7 more`."""
    named = ", ".join(f"{each['level']} {each['name']!r}" for each in layers[:_NAMED])
    return named + (f" and {len(layers) - _NAMED} more" if len(layers) > _NAMED else "")
