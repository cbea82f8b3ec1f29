"""The command line: one file for each command, imported when it is used."""

from sluicegate.cli.group import main

__all__ = ["main"]
