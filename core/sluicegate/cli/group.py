"""The `sluicegate` command."""

import errno
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from sluicegate import __version__
from sluicegate.model import visible

_COMMANDS = {
    "run": ("Run the gateway for the brokers in a file.", "sluicegate.cli.run:run"),
    "demo": (
        "Show what a limit is good for, or every policy, on real client traffic.",
        "sluicegate.cli.demo:demo",
    ),
    "check": ("Report every error in a configuration file.", "sluicegate.cli.check:check"),
    "schema": ("Print the JSON Schema of the configuration file.", "sluicegate.cli.schema:schema"),
    "explain": (
        "Show a topic's policies, or why it was refused.",
        "sluicegate.cli.explain:explain",
    ),
    "policies": (
        "Show and change policies of file and store, with history and undo.",
        "sluicegate.cli.policy_commands:policies",
    ),
    "drift": (
        "Show where brokers' own limits differ from the policies.",
        "sluicegate.cli.drift:drift",
    ),
    "budgets": (
        "Show the limits that several gateways share, and who shares them.",
        "sluicegate.cli.budget_commands:budgets",
    ),
    "top": ("Show topics, clients, who is held and why, as they are now.", "sluicegate.cli.top:top"),
    "import": ("Convert another system's policies to a policy file.", "sluicegate.cli.importing:import_"),
    "plugins": ("List the loaded plugins, and make new ones.", "sluicegate.cli.plugins:plugins"),
}
"""Help line and location of each command; a command's module is imported only to run it."""
_NO_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _LazyGroup(click.Group):
    """A group that imports commands lazily: `sluicegate --help` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *(command.name or "" for command in _plugin_commands())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            module, _, name = _COMMANDS[cmd_name][1].partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return command
        return next((command for command in _plugin_commands() if command.name == cmd_name), None)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            known = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"unknown command {args[0]!r}; known commands: {known}", ctx)
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _output_errors():  # `--help` and `--version` print here
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _output_errors():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, text) for name, (text, _) in _COMMANDS.items()]
        rows += [(command.name or "", command.get_short_help_str(80)) for command in _plugin_commands()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@contextmanager
def _output_errors() -> Iterator[None]:
    """Report in one line that standard output is full or broken; click itself handles a closed pipe.

    click prints errors itself, so what they quote, of files and of what others sent, is escaped here.
    """
    try:
        yield
    except click.ClickException as error:
        error.message = visible(error.message)  # type: ignore[misc] # only its constructor sets it
        raise
    except OSError as error:
        if error.filename is not None or error.errno not in _NO_OUTPUT:  # an error about a file names it
            raise
        give_up_output()
        raise click.ClickException(f"cannot write to standard output: {error.strerror}") from error


def give_up_output() -> None:
    """Print nowhere from now on: what is buffered would fail again when Python flushes it at exit."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _plugin_commands() -> Sequence[click.Command]:
    from sluicegate.cli.opening import plugin_commands

    return plugin_commands()


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sluicegate")
def main() -> None:
    """One policy gateway in front of the message brokers that you already run."""
