"""Text of `sluicegate explain` about factors and adaptive rates, as the gateway last reported them."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any


def factor_lines(explained: Mapping[str, Any], now_ms: int) -> list[str]:
    """Format each factor, then the rates that the smallest one leaves.

    :param explained: from `runtime.effective`.
    """
    factors = explained["factors"]
    if not factors:
        return []
    width = max(map(len, factors))
    lines = ["", "factors, as last reported by the gateway:"]
    for name, factor in factors.items():
        notes = [] if factor["known"] else ["data is missing"]
        if factor["mode"] != "enforce":
            notes.append("only observed" if factor["mode"] == "observe" else factor["mode"])
        notes += [factor["why"]] if factor["why"] else []
        notes.append(f"reported {_age(now_ms - factor['at_ms'])} ago")
        lines.append(f"  {name.ljust(width)}  {factor['value']:.2f}  {'; '.join(notes)}")
    if explained["reduced"] is not None:
        lines += _shares(explained["reduced"], factors)
    return lines


def _shares(reduced: Mapping[str, Any], factors: Mapping[str, Any]) -> Iterator[str]:
    name, rates = reduced["by"], reduced["rates"]
    if reduced["paused"]:
        yield f"  publishing is paused by {name}"
    elif not rates:
        yield "  no rate or quota is set, so there is nothing to reduce; 0 would pause publishing"
    for policy, rate in rates.items():
        yield f"  {policy} {rate['full']} x {factors[name]['value']:.2f} = {rate['left']} ({name})"


def adaptive_lines(explained: Mapping[str, Any], now_ms: int) -> list[str]:
    """Format the state of the adaptive controllers, and their effect on the topic.

    :param explained: from `runtime.effective`.
    """
    lines = []
    for name, state in explained["adaptive"].items():
        scalars = [f"{key} {value}" for key, value in state.items() if _is_plain(value) and key != "at_ms"]
        scalars.append(f"reported {_age(now_ms - int(state.get('at_ms', now_ms)))} ago")
        lines += ["", f"adaptive {name}, as last reported by the gateway: {', '.join(scalars)}"]
        topics = state.get("topics")
        own = topics.get(explained["topic"]) if isinstance(topics, dict) else None
        if isinstance(own, dict):
            lines.append(f"  this topic: {', '.join(f'{key} {value}' for key, value in own.items())}")
    return lines


def _is_plain(value: object) -> bool:
    return value != "" and isinstance(value, str | int | float)


def _age(ms: int) -> str:
    seconds = max(0, ms) // 1000
    return f"{seconds} s" if seconds < 120 else str(timedelta(seconds=seconds))
