"""Shell completion, as docs/maintenance.md sets it up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SLUICEGATE = Path(sys.executable).with_name("sluicegate")
WHICH_BASH_DOES = """
eval "$(_SLUICEGATE_COMPLETE=bash_source sluicegate)"
complete -p sluicegate >/dev/null || exit 1
COMP_WORDS=({words}) COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_sluicegate_completion sluicegate
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def shell(script: str, **environ: str) -> list[str]:
    path = f"{SLUICEGATE.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path, **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("sluicegate ex", ["explain"]),
        ("sluicegate topics set", ["set-delayed-delivery"]),
        ("sluicegate explain --c", ["--config", "--client"]),
        ("sluicegate report compare x --format h", ["html"]),
    ],
)
def test_bash_completes_commands_options_and_values(words: str, offered: list[str]) -> None:
    assert shell(WHICH_BASH_DOES.format(words=words)) == offered


@pytest.mark.parametrize("command", ["check", "run -c", "explain -c", "topics get-delayed-delivery x -c"])
def test_where_a_file_is_wanted_files_are_completed(command: str) -> None:
    words = f"sluicegate {command} "
    count = str(len(words.split()))

    found = shell("sluicegate", COMP_WORDS=words, COMP_CWORD=count, _SLUICEGATE_COMPLETE="bash_complete")

    assert found == ["file,"]


@pytest.mark.parametrize(
    ("name", "begins"), [("zsh", "#compdef sluicegate"), ("fish", "function _sluicegate_completion;")]
)
def test_other_shells_have_scripts_too(name: str, begins: str) -> None:
    assert begins in shell("sluicegate", _SLUICEGATE_COMPLETE=f"{name}_source")
