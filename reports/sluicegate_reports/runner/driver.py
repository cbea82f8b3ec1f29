"""The process of one arm's clients: `python -m sluicegate_reports.runner.driver PLAN.json`.

A process of its own, so that a client library that blocks, or aborts when it ends, takes nothing else along.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from sluicegate.host.children import commands, say
from sluicegate_reports.runner.children import ask_clock
from sluicegate_reports.runner.clients.registry import driver as driver_of
from sluicegate_reports.runner.plan import ArmPlan
from sluicegate_reports.runner.playing import Clock, play
from sluicegate_reports.runner.watching import Watch

_TELL_S = 0.5


def write_plan(plan: ArmPlan, file: Path) -> None:
    """Write a plan where its process will find it."""
    file.write_text(json.dumps(asdict(plan), indent=1), encoding="utf-8")


def read_plan(file: Path) -> ArmPlan:
    """Read what `write_plan` wrote.

    :raises pydantic.ValidationError: if it is something else.
    """
    return TypeAdapter(ArmPlan).validate_python(json.loads(file.read_text(encoding="utf-8")))


async def _tell(watch: Watch, clock: Clock) -> None:
    while True:
        await asyncio.sleep(_TELL_S)
        at = clock.now_s if clock.began.is_set() else -1.0
        say({"progress": at, "counts": dict(watch.counts)})


async def _listen(playing: "asyncio.Task[None]") -> None:
    """Answer the runner; exit when it ends."""
    async for command in commands():
        if not ask_clock(command):
            break
    playing.cancel()


async def run(plan: ArmPlan) -> None:
    """Play a plan, and say how it goes."""
    clock = Clock()
    with Watch(plan) as watch:
        playing = asyncio.ensure_future(play(plan, driver_of(plan), watch, clock))
        others = [asyncio.ensure_future(_tell(watch, clock)), asyncio.ensure_future(_listen(playing))]
        say({"ready": True})
        try:
            await playing
        finally:
            for task in others:
                task.cancel()
    say(
        {
            "done": True,
            "zero_us": clock.zero_us,
            "read_until_us": clock.read_until_us,
            "counts": dict(watch.counts),
            "foreign": watch.foreign,
        }
    )


def main(arguments: list[str]) -> int:
    """Play the plan in a file; returns 1 if the runner called it off."""
    import uvloop

    with suppress(asyncio.CancelledError):
        uvloop.run(run(read_plan(Path(arguments[0]))))
        return 0
    return 1


if __name__ == "__main__":
    status = main(sys.argv[1:])
    # All is written. Threads of client libraries may still wait for brokers, or abort when their turn comes.
    sys.stdout.flush()
    os._exit(status)
