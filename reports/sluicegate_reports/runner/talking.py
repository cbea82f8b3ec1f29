"""How the runner's processes talk to it: lines of JSON on standard input and output."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

_LONGEST_LINE = 1 << 20


def say(message: Mapping[str, Any]) -> None:
    """Tell the runner something."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def commands() -> AsyncIterator[Mapping[str, Any]]:
    """What the runner says, until it is gone."""
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        found: Mapping[str, Any] = json.loads(line)
        yield found


def ask_clock(command: Mapping[str, Any]) -> bool:
    """Tell this process's clock if that is what is asked.

    :return: False if it is something else.
    """
    if command.get("ask") != "clock":
        return False
    say({"clock_ns": time.time_ns()})
    return True
