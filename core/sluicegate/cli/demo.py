"""`sluicegate demo`."""

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluicegate.children import ChildError
from sluicegate.demo.gate import GateError
from sluicegate.demo.scene import BrokerDemo, Verdict
from sluicegate.gateway.plugins import PluginError, Plugins, load_plugins

if TYPE_CHECKING:
    from sluicegate.demo.runner import Outcome


@click.command()
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Put policy file, logs and decision log into DIR, which must be new or empty. Without it they are "
    "left in a directory of their own among the system's temporary files.",
)
@click.option("--plain", is_flag=True, help="No colours, and plain ASCII lines round the tables.")
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
    """Show every policy on real client traffic, then compare the systems: less than three minutes in all.

    Starts an embedded backend for each kind of broker and one gate in front of them, all on loopback, and
    lets real clients run into each policy; then lets a volume fill up and a backlog build up, and draws how
    publishing follows. Prints what each policy says, what was seen, and the client's own error, then rows of
    the decision log: twenty seconds. Nothing outside the demo's directory is touched.

    Then one short scenario is played against each system, and Spark makes the comparison report of it, in the
    terminal and as HTML, Markdown and JSON. Without Java 17 or Spark it says how to get them, and shows what
    the clients saw.

    The exit code is 1 if anything that was seen differs from what the policy says. Environment variables
    that begin with SLUICEGATE__ are for `sluicegate run` and have no effect here.
    """
    problems: Sequence[str] = ()
    try:
        plugins = load_plugins(())
        demos = _demos(plugins, frozenset(only))
        outcome = _run(demos, _directory(keep), plain, frozenset(only))
        if report and not only:
            problems = _parts(outcome, demos, plugins, plain)
    except PluginError as error:
        raise click.ClickException(str(error)) from None
    except (GateError, ChildError, OSError) as error:
        raise click.ClickException(f"the demo cannot run: {error}") from None
    sys.exit(1 if outcome.count(Verdict.DIFFERENT) or problems else 0)


def _demos(plugins: Plugins, only: frozenset[str]) -> Mapping[str, BrokerDemo]:
    """The demos that can run here and have a scene to play."""
    offered: dict[str, BrokerDemo] = {
        system: driver.demo() for system, driver in plugins.drivers.items() if hasattr(driver, "demo")
    }
    missing = {system: found.missing() for system, found in offered.items()}
    usable = {system: found for system, found in offered.items() if not missing[system]}
    for system in offered.keys() - usable.keys():
        click.echo(f"{system} is not shown: {missing[system]}", err=True)
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
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="sluicegate-demo-"))
    directory = keep.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise click.UsageError(f"{str(keep)!r} is not empty: expected a new or empty directory")
    return directory


def _run(demos: Mapping[str, BrokerDemo], directory: Path, plain: bool, only: frozenset[str]) -> "Outcome":
    import uvloop

    from sluicegate.demo.runner import run_demo
    from sluicegate.demo.table import Page, show

    page = Page(plain)
    outcome = uvloop.run(run_demo(demos, directory, page.say, only))
    show(outcome, page)
    return outcome


def _parts(
    outcome: "Outcome", demos: Mapping[str, BrokerDemo], plugins: Plugins, plain: bool
) -> Sequence[str]:
    """What plugins show at the end; returns what is wrong, which was printed last of all."""
    from sluicegate.demo.parts import show_parts
    from sluicegate.demo.table import Page, totals

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
