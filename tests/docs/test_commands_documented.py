"""docs/commands.md says what the command line says."""

import importlib.util
from pathlib import Path
from typing import Any

import click
import pytest

from sluicegate.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
_SPEC = importlib.util.spec_from_file_location("generate_commands", DOCS / "generate_commands.py")
assert _SPEC is not None
assert _SPEC.loader is not None
generate_commands: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate_commands)


def test_every_command_and_option_is_documented_as_its_help_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICEGATE_LOAD_PLUGINS", raising=False)

    document = generate_commands.render(main)

    assert "| `-c`, `--config` `FILE` |" in document
    assert (DOCS / "commands.md").read_text() == document, "run `python docs/generate_commands.py`"


def test_every_command_and_option_says_what_it_does() -> None:
    every = list(generate_commands.commands(main, click.Context(main, info_name="sluicegate")))
    options = [each for _, command in every for each in command.params if isinstance(each, click.Option)]
    assert len(every) > 15
    assert [words for words, command in every if not command.help] == []
    assert [option.opts for option in options if not option.help] == []
