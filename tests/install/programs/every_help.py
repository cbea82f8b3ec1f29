"""Asks every command of the command line for its help; prints the commands that have one."""

from collections.abc import Iterator

import click
from click.testing import CliRunner

from sluicegate.cli import main


def commands(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        yield (*path, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


for path in commands(main, ()):
    done = CliRunner().invoke(main, [*path, "--help"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Usage: "), done.output
    assert not done.stderr, done.stderr
    print(" ".join(path))
