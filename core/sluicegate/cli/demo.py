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

from sluicegate.children import ChildError
from sluicegate.demo.gate_process import GateError
from sluicegate.demo.scene import BrokerDemo, Verdict
from sluicegate.gateway.plugins import PluginError, Plugins, load_plugins

if TYPE_CHECKING:
    from sluicegate.demo.runner import Outcome

_ENDED = 130
"""Exit code of a demo that a signal ended."""


@click.command()
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Put policy files, logs and decision logs into DIR, which must be new or empty. Without it they go "
    "to a new directory among the system's temporary files, which the last lines name.",
)
@click.option("--plain", is_flag=True, help="No colours, and ASCII only.")
@click.option(
    "--only",
    multiple=True,
    metavar="SCENE",
    help="Play this scene only, without the report; give it several times for several. An unknown name lists "
    "them all.",
)
@click.option(
    "--report/--no-report",
    default=True,
    help="Whether to compare the systems at the end, which takes a minute or two; by default it does.",
)
def demo(keep: Path | None, plain: bool, only: tuple[str, ...], report: bool) -> None:
    """Show every policy on real client traffic, then compare the systems.

    Starts an embedded backend for each kind of broker, `sluicegate run` in front of them, and the clients of
    each system, all on loopback and in processes of their own. The clients run into each policy; then a
    volume fills up and a backlog builds up, and you see how publishing follows. The table at the end shows
    what each policy says, what happened, and the client's own error. Rows of the decision log come after it.
    Nothing outside the demo's directory is touched.

    Then one short scenario is played against each system, and Spark makes the comparison report of it, in the
    terminal and as HTML, Markdown and JSON. Without Java 17 or Spark it says how to get them, and shows what
    the clients saw.

    A rate is judged by the decision log and by acknowledgements, not by a stopwatch, so the result does not
    depend on how fast the machine is. Where the clients are too slow to reach a limit, the scene is
    "not saturated here": neither right nor wrong.

    The exit code is 1 if anything that happened differs from what the policy says, or if the demo cannot run;
    it is 130 if Ctrl-C or a signal ended it. Environment variables that begin with SLUICEGATE__ are for
    `sluicegate run` and have no effect here. COLUMNS sets the width of the page, and NO_COLOR turns colours
    off.
    """
    problems: Sequence[str] = ()
    try:
        with _signals_end_it():
            plugins = load_plugins(())
            demos = _demos(plugins, frozenset(only))
            outcome = _run(demos, _directory(keep), plain, frozenset(only))
            if report and not only:
                problems = _parts(outcome, demos, plugins, plain)
    except PluginError as error:
        raise click.ClickException(str(error)) from None
    except (GateError, ChildError, OSError) as error:
        raise click.ClickException(f"the demo cannot run: {error}") from None
    except KeyboardInterrupt:
        click.echo("the demo was ended before it was over; none of its processes is left", err=True)
        sys.exit(_ENDED)
    sys.exit(1 if outcome.count(Verdict.DIFFERENT) or problems else 0)


@contextmanager
def _signals_end_it() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP do what Ctrl-C does: the demo ends its processes, then itself."""
    # A shell that starts it in the background has SIGINT ignored, and nohup SIGHUP.
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
    """The demos that can run here and have a scene to play."""
    offered: dict[str, BrokerDemo] = {
        system: driver.demo() for system, driver in plugins.drivers.items() if hasattr(driver, "demo")
    }
    usable = {system: found for system, found in offered.items() if not found.extra.missing()}
    for system in offered.keys() - usable.keys():
        extra = offered[system].extra
        libraries = " and ".join(extra.missing())
        click.echo(f"{system} is not shown: {libraries} not installed; do: {extra.remedy}", err=True)
    for system, absent in plugins.left_out.items():
        click.echo(f"{system} is not shown: {absent.told}", err=True)
    if not usable:
        raise click.ClickException("there is nothing to show: no installed broker plugin has a demo to run")
    names = {scene.name for found in usable.values() for scene in found.scenes}
    if unknown := only - names:
        raise click.UsageError(f"unknown scene {min(unknown)!r}; known scenes: {', '.join(sorted(names))}")
    return {
        system: found
        for system, found in usable.items()
        if not only or any(scene.name in only for scene in found.scenes)
    }


def _directory(keep: Path | None) -> Path:
    try:
        if keep is None:
            return Path(tempfile.mkdtemp(prefix="sluicegate-demo-"))
        directory = keep.absolute()
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(
            f"there is nowhere to write to ({error}): name a directory that can be written to with --keep DIR"
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
    """What plugins show at the end; returns what is wrong, which was printed last of all."""
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
    page.say(f"The whole demo took {seconds:.0f} s; {outcome.directory} keeps all of it.")
    return problems
