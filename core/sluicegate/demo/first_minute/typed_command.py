"""Runs commands of `sluicegate` as a user does, beside a running gateway."""

import asyncio
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluicegate.host.children import python_command


@dataclass(frozen=True, slots=True)
class Asked:
    """A command that has ended."""

    line: str
    """As it is typed."""
    text: str
    """What it printed."""
    code: int


async def ask(words: Sequence[str], directory: Path) -> Asked:
    """Run a command to its end.

    :param words: those behind `sluicegate`.
    :param directory: where it runs; it has the gateway's `gateway.yaml`.
    """
    # The gateway was started without overrides too.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICEGATE__")}
    process = await asyncio.create_subprocess_exec(
        *python_command("sluicegate", *words),
        cwd=directory,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    code = process.returncode
    line = shlex.join(("sluicegate", *words))
    return Asked(line, printed.decode(errors="replace").strip(), 1 if code is None else code)
