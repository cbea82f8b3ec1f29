"""`sluicegate demo`."""

import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluicegate.demo.gateway_process import GatewayError
from sluicegate.demo.scene import BrokerDemo, Verdict
from sluicegate.host.children import ChildError
from sluicegate.output import echo
from sluicegate.runtime.plugins import PluginError, Plugins, load_plugins

if TYPE_CHECKING:
    from sluicegate.demo.runner import Outcome

_ENDED = 130
"""Exit code of a demo that a signal ended."""


@click.command()
@click.option(
    "--all",
    "plays_all",
    is_flag=True,
    help="Show every policy on every system, then compare the systems, which takes some minutes.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(5, 600),
    default=None,
    metavar="N",
    help="How long the noisy producer and its neighbour are shown; the default is 34.",
)
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg",
    help="Write what was drawn as a picture, too.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Put policy files, logs and decision logs into DIR, which must be new or empty. The default is a "
    "new temporary directory, which the last lines of the output show.",
)
@click.option("--plain", is_flag=True, help="No colours, and ASCII only.")
@click.option(
    "--only",
    multiple=True,
    metavar="SCENE",
    help="Of --all play only this scene, without the report; repeat the option for several. An unknown name "
    "lists all scenes.",
)
@click.option(
    "--report/--no-report",
    default=True,
    help="Whether --all compares the systems at the end, which takes a minute or two; by default it does.",
)
def demo(
    plays_all: bool,
    seconds: float | None,
    picture: Path | None,
    keep: Path | None,
    plain: bool,
    only: tuple[str, ...],
    report: bool,
) -> None:
    """Show in a minute how one command ends what a noisy producer does to its neighbour.

    Starts an embedded broker with a slow disk for each system, `sluicegate run` in front of them, and real
    clients, all on loopback and in separate processes. A noisy producer ruins the latency of its neighbour.
    Then `sluicegate policies set` limits it, while all runs: the neighbour recovers, the noisy producer's
    client library raises its own error, and `sluicegate explain` says why. The load follows what this machine
    takes at the start. Ratios of what was measured determine whether the demo showed this.

    With --all, clients exceed each policy of each system. A table shows what each policy says, what happened,
    and the client's own error. Rows of the decision log follow. Then a short scenario runs against each
    system, and the demo makes a comparison report of it; without the extra `reports` it says how to install
    that, and shows what the clients saw. The decision log and acknowledgements determine whether a rate is
    right, so the result does not depend on the speed of the machine. If the clients are too slow to reach a
    limit, the scene is "not saturated here": neither right nor wrong.

    The demo writes nothing outside its directory, apart from --picture. The exit code is 1 if it did not show
    what it claims, if an observation differs from its policy, or if the demo cannot run; it is 130 if Ctrl-C
    or a signal ended it. Environment variables that start with SLUICEGATE__ are for `sluicegate run` and have
    no effect here. COLUMNS sets the width of the output, and NO_COLOR disables colours.
    """
    plays_all = plays_all or bool(only)
    _refuse_mixed(plays_all, {"--seconds": seconds, "--picture": picture}, report)
    with _errors_reported(), _signals_interrupt():
        if plays_all:
            failed = _all(frozenset(only), keep, plain, report=report)
        else:
            failed = _first_minute(seconds, picture, keep, plain)
    sys.exit(1 if failed else 0)


@contextmanager
def _errors_reported() -> Iterator[None]:
    """End the program with a sentence if the demo cannot run, or is interrupted."""
    try:
        yield
    except PluginError as error:
        raise click.ClickException(str(error)) from None
    except (GatewayError, ChildError, OSError) as error:
        raise click.ClickException(f"the demo cannot run: {error}") from None
    except KeyboardInterrupt:
        echo("the demo was interrupted; all its processes have ended", err=True)
        sys.exit(_ENDED)


def _refuse_mixed(plays_all: bool, of_the_minute: Mapping[str, object], report: bool) -> None:
    """Refuse options that say nothing about what is to be shown."""
    for name, value in of_the_minute.items():
        if plays_all and value is not None:
            raise click.UsageError(f"{name} is for the demo without --all and --only")
    if not plays_all and not report:
        raise click.UsageError("--no-report is for --all: `sluicegate demo --all --no-report`")


def _all(only: frozenset[str], keep: Path | None, plain: bool, *, report: bool) -> bool:
    """Show every policy; return whether something differs."""
    plugins = load_plugins(())
    demos = _demos(plugins, only)
    outcome = _run(demos, _directory(keep), plain, only)
    problems: Sequence[str] = ()
    if report and not only:
        problems = _parts(outcome, demos, plugins, plain)
    return bool(outcome.count(Verdict.DIFFERENT) or problems)


def _first_minute(seconds: float | None, picture: Path | None, keep: Path | None, plain: bool) -> bool:
    """Show the first minute; return whether it did not show what it claims."""
    import uvloop

    from sluicegate.demo.first_minute.running import SECONDS, Wanted, run_first_minute
    from sluicegate.demo.page import Page

    demos = _demos(load_plugins(()), frozenset())
    page = Page(plain)
    wanted = Wanted(_directory(keep), SECONDS if seconds is None else seconds, picture)
    problems = uvloop.run(run_first_minute(demos, wanted, page))
    for problem in problems:
        page.say(problem, "bold red")
    return bool(problems)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP act like Ctrl-C within the block: the demo ends its processes, then itself."""
    # A shell ignores SIGINT for background processes, nohup ignores SIGHUP.
    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler)}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _demos(plugins: Plugins, only: frozenset[str]) -> Mapping[str, BrokerDemo]:
    """The demos whose extras are installed and that have a scene to play."""
    offered: dict[str, BrokerDemo] = {
        system: demo for system, driver in plugins.drivers.items() if (demo := driver.demo()) is not None
    }
    usable = {system: demo for system, demo in offered.items() if not demo.extra.missing()}
    for system in offered.keys() - usable.keys():
        extra = offered[system].extra
        libraries = " and ".join(extra.missing())
        echo(f"{system} is not shown: {libraries} not installed; do: {extra.remedy}", err=True)
    for system, absent in plugins.left_out.items():
        echo(f"{system} is not shown: {absent.explanation}", err=True)
    if not usable:
        raise click.ClickException("nothing to show: no installed broker plugin has a demo that can run")
    names = {scene.name for demo in usable.values() for scene in demo.scenes}
    if unknown := only - names:
        raise click.UsageError(f"unknown scene {min(unknown)!r}; known scenes: {', '.join(sorted(names))}")
    return {
        system: demo
        for system, demo in usable.items()
        if not only or any(scene.name in only for scene in demo.scenes)
    }


def _directory(keep: Path | None) -> Path:
    try:
        if keep is None:
            return Path(tempfile.mkdtemp(prefix="sluicegate-demo-"))
        directory = keep.absolute()
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(
            f"no directory to write to ({error}): give a writable directory with --keep DIR"
        ) from None
    if any(directory.iterdir()):
        raise click.UsageError(f"{str(keep)!r} is not empty: expected a new or empty directory")
    return directory


def _run(demos: Mapping[str, BrokerDemo], directory: Path, plain: bool, only: frozenset[str]) -> "Outcome":
    import uvloop

    from sluicegate.demo.page import Page
    from sluicegate.demo.runner import run_demo
    from sluicegate.demo.table import show

    page = Page(plain)
    outcome = uvloop.run(run_demo(demos, directory, page.say, only))
    show(outcome, page)
    return outcome


def _parts(
    outcome: "Outcome", demos: Mapping[str, BrokerDemo], plugins: Plugins, plain: bool
) -> Sequence[str]:
    """Show the plugins' parts and the totals; return the problems, which are printed too."""
    from sluicegate.demo.page import Page
    from sluicegate.demo.parts import show_parts
    from sluicegate.demo.table import totals

    began = time.monotonic()
    problems = show_parts(plugins, outcome.directory, tuple(demos), plain)
    page = Page(plain)
    for problem in problems:
        page.say(problem, "bold red")
    page.say("")
    page.say(*totals(outcome))
    seconds = outcome.seconds + time.monotonic() - began
    page.say(f"The whole demo took {seconds:.0f} s; its files are in {outcome.directory}.")
    return problems
