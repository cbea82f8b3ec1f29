"""`sluicegate policies`: show and change policies, with history and undo."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from sluicegate.cli.hindsight_text import hindsight_text
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
from sluicegate.cli.policy_texts import changes_text, history_text, settings_text
from sluicegate.cli.rollout_commands import promote, rollouts
from sluicegate.model import LEVELS
from sluicegate.output import echo, echo_document, echo_json
from sluicegate.runtime.edits import edit, set_by

_DIFFERENT = 1

file_argument = click.argument("document", type=click.File("r", encoding="utf-8"))


@click.group()
def policies() -> None:
    """Show and change policies of file and store, with history and undo.

    A gateway that runs on this host with the configuration file is asked, and changes are in force at once.
    Without one, the file and its store are read, and changes hold from the next start on.

    LEVEL is `broker`, `namespace` or `topic`; the last two need a NAME, exact or with `*`.
    """


@policies.command()
@click.argument("level", required=False, type=click.Choice(tuple(LEVELS)))
@click.argument("name", required=False)
@click.argument("field", required=False)
@config_file
@click.option("--broker", default=None, metavar="NAME", help="Only what is set for this broker's entry.")
@json_option
def get(
    level: str | None, name: str | None, field: str | None, file: str, broker: str | None, is_json: bool
) -> None:
    """Show what file and store set: all, of one level, of one name, or one field of it.

    `sluicegate explain TOPIC` shows what holds for a topic after all levels are merged.
    """
    door = open_door(file)
    in_force = door.settings()
    if level == "broker" and field is None:
        name, field = None, name
    asked = {"level": level, "name": name, "field": field, "broker": broker}
    rows = [
        row
        for row in in_force["settings"]
        if all(value is None or row[key] == value for key, value in asked.items())
    ]
    if is_json:
        echo_json({**in_force, "settings": rows})
    elif rows:
        echo(*settings_text(rows), "", f"policies {in_force['version']}, {door.origin}")
    else:
        echo(f"nothing is set there ({door.origin})")


@policies.command(name="set")
@click.argument("level", type=click.Choice(tuple(LEVELS)))
@click.argument("words", nargs=-1, required=True, metavar="[NAME] POLICY=VALUE...")
@config_file
@broker_option
@reason_option
@dry_run_option
@click.option(
    "--if-version", metavar="VERSION", help="Change nothing if the policies have another version by now."
)
@json_option
def set_(
    level: str,
    words: Sequence[str],
    file: str,
    broker: str,
    reason: str,
    dry_run: bool,
    if_version: str | None,
    is_json: bool,
) -> None:
    """Set policies in the store, such as `set topic orders.eu max_publish_rate=500/s`.

    All are set at once, or none. A ceiling is set by `ceiling.POLICY=VALUE`, an option by
    `on_limit.POLICY=reject` or `mode.POLICY=observe`.
    """
    name, rest = named(level, words)
    try:
        edits = [set_by(level, name, broker, word) for word in rest]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _change(file, edits, reason, if_version, dry_run=dry_run, is_json=is_json)
    if dry_run and not is_json and not broker:
        change = shlex.quote(shlex.join((level, *words)))
        echo(f"over more of the log: sluicegate report replay LOG {shlex.quote(file)} --set {change}")


@policies.command()
@click.argument("level", type=click.Choice(tuple(LEVELS)))
@click.argument("words", nargs=-1, required=True, metavar="[NAME] POLICY...")
@config_file
@broker_option
@reason_option
@dry_run_option
@json_option
def unset(
    level: str, words: Sequence[str], file: str, broker: str, reason: str, dry_run: bool, is_json: bool
) -> None:
    """Remove policies from the store, so that they are inherited again."""
    name, rest = named(level, words)
    edits = [edit(level, name, broker, field, None) for field in rest]
    _change(file, edits, reason, None, dry_run=dry_run, is_json=is_json)


@policies.command()
@file_argument
@config_file
@click.option("--prune", is_flag=True, help="Also show what DOCUMENT does not set, which would be removed.")
@json_option
def diff(document: Any, file: str, prune: bool, is_json: bool) -> None:
    """Compare the store with DOCUMENT, a file of policies (`-` for standard input).

    If they differ, it also says who would have been held or refused by DOCUMENT in the last hour.
    The exit code is 1 if they differ.
    """
    plan = open_door(file).apply(document.read(), "", prune=prune, dry_run=True)
    if is_json:
        echo_json(plan)
    else:
        echo(*(changes_text(plan["changes"]) or ["no difference"]))
        if plan["changes"]:
            echo(*hindsight_text(plan["last_hour"]))
    sys.exit(_DIFFERENT if plan["changes"] else 0)


@policies.command()
@file_argument
@config_file
@click.option("--prune", is_flag=True, help="Remove what DOCUMENT does not set.")
@reason_option
@dry_run_option
@json_option
def apply(document: Any, file: str, prune: bool, reason: str, dry_run: bool, is_json: bool) -> None:
    """Set all policies of DOCUMENT in the store at once (`-` for standard input).

    DOCUMENT has `policies:` as in the configuration file, and `brokers:` with `name` and `policies` for
    single brokers. `export` writes one.
    """
    door = open_door(file)
    change = door.apply(document.read(), reason, prune=prune, dry_run=dry_run)
    print_change(change, door.origin, dry_run=dry_run, is_json=is_json)


@policies.command()
@config_file
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write it here, not to stdout."
)
def export(file: str, output: Path | None) -> None:
    """Print the store's policies as a document for `apply`."""
    text = open_door(file).export()
    if output is None:
        echo_document(text.rstrip("\n"))
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {str(output)!r}: {error.strerror}") from None


@policies.command()
@config_file
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="Most revisions.")
@json_option
def history(file: str, limit: int, is_json: bool) -> None:
    """Show who changed which policies when, and why, newest first; changes of the file included."""
    revisions = open_door(file).history(limit)
    if is_json:
        echo_json(revisions)
    else:
        echo(*history_text(revisions))


@policies.command()
@click.argument("number", type=click.IntRange(1))
@config_file
@reason_option
@dry_run_option
@json_option
def undo(number: int, file: str, reason: str, dry_run: bool, is_json: bool) -> None:
    """Take back a revision of `history`; that is a revision, too, which can be undone."""
    door = open_door(file)
    change = door.undo(number, reason, dry_run=dry_run)
    print_change(change, door.origin, dry_run=dry_run, is_json=is_json)


def _change(
    file: str,
    edits: list[dict[str, Any]],
    reason: str,
    seen: str | None,
    *,
    dry_run: bool,
    is_json: bool,
) -> None:
    door = open_door(file)
    change = door.change(edits, reason, seen, dry_run=dry_run)
    print_change(change, door.origin, dry_run=dry_run, is_json=is_json)


policies.add_command(promote)
policies.add_command(rollouts)
