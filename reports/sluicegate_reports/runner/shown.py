"""Plays a run with its progress on a terminal."""

import asyncio
import signal
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.output.console import Console
from sluicegate_reports.runner.progress import Bars
from sluicegate_reports.runner.running import Comparison, estimate_s, tidy

if TYPE_CHECKING:
    from sluicegate.runtime.plugins import Plugins
    from sluicegate_reports.model.runs import Run
    from sluicegate_reports.runner.doors import Arm
    from sluicegate_reports.runner.loading import LoadedScenario


def play_shown(
    loaded: "LoadedScenario",
    arms: "list[Arm]",
    directory: Path,
    plugins: "Plugins",
    *,
    console: Console,
    command: str,
    given: Mapping[str, tuple[str, ...]],
    embedded: bool,
) -> "Run":
    """Play a run; all processes that it started have ended when this returns.

    :param directory: the run's; exists and is empty.
    :param command: the command line, for the facts.
    :param given: addresses by broker, see `broker_provider.BrokerProvider`.
    :param embedded: stand-ins instead of brokers that are not given.
    :raises OSError: if the run's directory cannot be written.
    :raises asyncio.CancelledError: if the process is told to end.
    """
    starts = not embedded and not all(system in given for system in ("kafka", "pulsar"))
    seconds = estimate_s(loaded, arms, starts_brokers=starts)
    console.print(f"{loaded.scenario.name}: {len(arms)} arms, about {_minutes(seconds)}")
    with Bars(console) as bars:
        comparison: Comparison = Comparison(loaded, arms, directory, plugins, bars, command, given, embedded)
        try:
            return asyncio.run(_until_signalled(comparison.play()))
        finally:
            tidy(directory)


async def _until_signalled(playing: "Coroutine[Any, Any, Run]") -> "Run":
    """Play until the run ends or a signal ends it; either way all started processes are ended in order."""
    task = asyncio.ensure_future(playing)
    loop = asyncio.get_running_loop()
    # nohup ignores SIGHUP, and the demo has handlers of its own.
    ours = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for number in ours:
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    finally:
        for number in ours:
            loop.remove_signal_handler(number)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
