"""The final output of the demo: the table, some rows of the decision log, and an explained refusal."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from sluicegate.decisions.journal import explain_refusal
from sluicegate.demo.page import Page
from sluicegate.demo.runner import Outcome, Played
from sluicegate.demo.scene import Verdict, by_policy
from sluicegate.demo.topic_log import Row
from sluicegate.model import visible

_ROWS = 12
_ROOMY = 120
"""Columns from which settings are not wrapped."""
_SETTING_WIDTH = 37
"""Width of the longest setting in the brokers' demos."""
_RANK = {"reject": 0, "drop": 1, "would_reject": 2, "delay": 3}
_HEADING = "Each policy on each system, with real clients"
_STYLES = {Verdict.RIGHT: "green", Verdict.DIFFERENT: "bold red", Verdict.UNSATURATED: "yellow"}


def show(outcome: Outcome, page: Page) -> None:
    """Print the results of a demo."""
    page.say("")
    if page.is_narrow:
        list_observations(outcome, page)
    else:
        page.show(observations(outcome, page))
    for system, notes in outcome.notes.items():
        for note in notes:
            page.say(f"- {system}: {note}")
    courses(outcome, page)
    page.say("")
    if page.is_narrow:
        list_decisions(outcome.rows, page)
    else:
        page.show(decisions(outcome.rows, page))
    page.say(f"It is in {outcome.state_dir / 'decisions'}, as Parquet.")
    refused = next((row["decision_id"] for row in outcome.rows if row["action"] == "reject"), None)
    if refused is not None:
        _explain(outcome, refused, page)
    page.say(f"\n{outcome.directory} keeps the policy file, the gateway's and clients' logs, and all state.")
    page.say(*totals(outcome))


def totals(outcome: Outcome) -> tuple[str, str]:
    """The number of right observations as a sentence, and its style."""
    total, different = len(outcome.played), outcome.count(Verdict.DIFFERENT)
    unsaturated = outcome.count(Verdict.UNSATURATED)
    open_ = f", {unsaturated} not saturated here" if unsaturated else ""
    if different:
        text = f"{different} of {total} observations differ from the policy{open_}; {outcome.seconds:.0f} s."
        return text, "bold red"
    right = total - unsaturated
    text = f"{right} of {total} observations are what the policies say{open_}; {outcome.seconds:.0f} s."
    return text, "bold yellow" if unsaturated else "bold green"


def observations(outcome: Outcome, page: Page) -> Table:
    """A table of each policy's expectation and the observations on each system."""
    table = page.table(_HEADING, lines=True)
    if page.width >= _ROOMY:
        table.add_column("policy", width=_SETTING_WIDTH, overflow="fold")
    else:
        table.add_column("policy", ratio=1, overflow="fold")
    table.add_column("system", no_wrap=True)
    for heading in ("expected", "observed", "the client's own error"):
        table.add_column(heading, ratio=1, overflow="fold")
    table.add_column("", width=len(Verdict.DIFFERENT))
    for played in _in_order(outcome):
        seen = played.observation
        table.add_row(
            Text(f"{played.scene.name}\n{_policies(played)}"),
            played.system,
            played.scene.expected,
            seen.text,
            seen.error or "none",
            Text(seen.verdict.value, style=_STYLES[seen.verdict]),
        )
    return table


def list_observations(outcome: Outcome, page: Page) -> None:
    """Print the same as paragraphs, for a narrow page."""
    page.say(_HEADING)
    for played in _in_order(outcome):
        seen = played.observation
        page.say(f"\n{played.system}: {played.scene.name}", "bold")
        page.say(_policies(played, "  "))
        page.say(f"expected: {played.scene.expected}")
        page.say(f"observed: {visible(seen.text)}")
        page.say(f"the client's own error: {visible(seen.error) or 'none'}")
        page.say(seen.verdict.value, _STYLES[seen.verdict])


def _in_order(outcome: Outcome) -> list[Played]:
    names = by_policy(played.scene for played in outcome.played)
    return sorted(outcome.played, key=lambda played: names.index(played.scene.name))


def _policies(played: Played, indent: str = "") -> str:
    return _settings({**played.policies, **played.scene.settings}, indent)


def courses(outcome: Outcome, page: Page) -> None:
    """Print the charts of scenes whose rates change over time, and a summary of their delays."""
    for played in outcome.played:
        chart = played.observation.chart
        if chart is None:
            continue
        page.say("")
        page.chart(chart)
        for policy, count, least, most in _delays(outcome.rows, played.scene.topic):
            page.say(f"decision log: {count} rows delay by {policy}, factor {least:.2f} to {most:.2f}")


def _delays(rows: Sequence[Row], topic: str) -> Iterator[tuple[str, int, float, float]]:
    """Delays of a topic by policy: number, lowest and highest factor."""
    by_policy: dict[str, list[float]] = {}
    for row in rows:
        if row["topic"] == topic and row["action"] == "delay":
            by_policy.setdefault(row["policy"], []).append(row["factor"])
    for policy, factors in by_policy.items():
        yield policy, len(factors), min(factors), max(factors)


def _settings(settings: Mapping[str, Any], indent: str = "") -> str:
    lines = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", _settings(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {str(value).lower() if isinstance(value, bool) else value}")
    return "\n".join(lines)


def decisions(rows: Sequence[Row], page: Page) -> Table:
    """A table of some rows of the decision log."""
    table = page.table(f"Decision log: {len(rows)} rows, some of them")
    for name in ("topic", "operation", "policy", "action"):
        table.add_column(name, overflow="fold")
    for name in ("current", "limit"):
        table.add_column(name, justify="right", overflow="fold")
    table.add_column("decision id", overflow="fold")
    for row in some(rows):
        table.add_row(
            *(_cell(row[name]) for name in ("topic", "operation", "policy", "action")),
            *(_number(row[name]) for name in ("current", "limit")),
            _cell(row["decision_id"]),
        )
    return table


def list_decisions(rows: Sequence[Row], page: Page) -> None:
    """Print the same as lines, for a narrow page."""
    page.say(f"Decision log: {len(rows)} rows, some of them")
    for row in some(rows):
        line = f"- {row['action']}: {row['operation']}, {row['topic']}"
        if row["policy"]:
            line += f", by {row['policy']} ({_number(row['current'])} of {_number(row['limit'])})"
        page.say(visible(f"{line}{'  ' if row['decision_id'] else ''}{_cell(row['decision_id'])}"))


def some(rows: Sequence[Row]) -> list[Row]:
    """The first row of each action and policy, at most twelve: refusals come first, plain allows last."""
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        first.setdefault((row["action"], row["policy"] or ""), row)
    ranked = sorted(first.values(), key=lambda row: (_RANK.get(row["action"], len(_RANK)), row["time"]))
    return ranked[:_ROWS]


def _explain(outcome: Outcome, decision_id: str, page: Page) -> None:
    file = shlex.quote(str(outcome.policy_file))
    page.say(
        f"\nWhy was that client refused? Ask by the id:\n$ sluicegate explain {decision_id} -c {file}", "bold"
    )
    page.say(explain_refusal(outcome.state_dir, decision_id))


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
