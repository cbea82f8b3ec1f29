"""Options and words that the commands under `sluicegate policies` share."""

from collections.abc import Sequence
from typing import Any

import click

from sluicegate.cli.policy_texts import done_text, plan_text
from sluicegate.output import echo, echo_json

broker_option = click.option(
    "--broker", default="", metavar="NAME", help="For this broker's entry alone; for all brokers if unset."
)
reason_option = click.option("--reason", default="", metavar="TEXT", help="Why, for the history.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
json_option = click.option("--json", "is_json", is_flag=True, help="Print JSON.")


def print_change(change: dict[str, Any], origin: str, *, dry_run: bool, is_json: bool) -> None:
    """Print a change or its plan."""
    if is_json:
        echo_json(change)
    else:
        echo(*(plan_text(change) if dry_run else done_text(change, origin)))


def named(level: str, words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The name, empty at broker level, and the other words."""
    if level == "broker":
        return "", words
    name, *rest = words
    if not rest:
        raise click.UsageError(f"expected the name of the {level}, then policies")
    return name, rest
