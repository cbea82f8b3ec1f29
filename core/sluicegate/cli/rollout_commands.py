"""`sluicegate policies promote` and `rollouts`: have policies apply to more, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from sluicegate.cli.aligning import aligned
from sluicegate.cli.options import config_file
from sluicegate.cli.policy_doors import open_door
from sluicegate.cli.policy_options import (
    broker_option,
    dry_run_option,
    json_option,
    named,
    print_change,
    reason_option,
)
from sluicegate.model import LEVELS
from sluicegate.output import echo, echo_json


@click.command()
@click.argument("level", type=click.Choice(tuple(LEVELS)))
@click.argument("words", nargs=-1, required=True, metavar="[NAME] POLICY")
@config_file
@broker_option
@reason_option
@dry_run_option
@click.option("--to", default="", metavar="MODE", help="The mode, such as `enforce`; the next step if unset.")
@click.option("--force", is_flag=True, help="Promote it although its time or the budget says no.")
@json_option
def promote(
    level: str,
    words: Sequence[str],
    file: str,
    broker: str,
    reason: str,
    dry_run: bool,
    to: str,
    force: bool,
    is_json: bool,
) -> None:
    """Have a policy apply to more: from observe over canaries to enforce.

    LEVEL and NAME are where its mode is set. It is refused while the policy was not watched for the `window`
    of the file's `rollout`, or has refused more than its `budget`, or would have. `rollouts` shows both.
    """
    name, rest = named(level, words)
    if len(rest) != 1:
        raise click.UsageError("expected one policy, such as max_publish_rate")
    asked = {"level": level, "name": name, "broker": broker, "policy": rest[0], "to": to, "force": force}
    door = open_door(file)
    change = door.promote({**asked, "reason": reason}, dry_run=dry_run)
    print_change(change, door.origin, dry_run=dry_run, is_json=is_json)


@click.command()
@config_file
@json_option
def rollouts(file: str, is_json: bool) -> None:
    """Show the policies that do not apply to everybody yet, and what they did or would have done."""
    door = open_door(file)
    rows = door.rollouts()
    if is_json:
        echo_json(rows)
    elif rows:
        echo(*rollouts_text(rows), "", door.origin)
    else:
        echo(f"every policy is enforced ({door.origin})")


def rollouts_text(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each policy, and under the table why any cannot be promoted."""
    table = [("where", "policy", "mode", "checked", "refused", "would", "share", "promote to")]
    table += [
        (
            row["place"],
            row["policy"],
            row["mode"],
            str(row["asked"]),
            str(row["refused"]),
            str(row["would_refuse"]),
            f"{row['share']:.2%}",
            row["next"] + (" (not yet)" if row["why_not"] else "") or "-",
        )
        for row in rows
    ]
    notes = [f"{row['policy']} of {row['place']}: {row['why_not']}" for row in rows if row["why_not"]]
    return [*aligned(table), *(["", *notes] if notes else [])]
