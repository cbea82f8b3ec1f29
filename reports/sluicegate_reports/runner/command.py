"""`sluicegate compare run`, `sluicegate compare scenarios` and `sluicegate compare fetch`."""

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluicegate_reports import registry
from sluicegate_reports.repetitions import repetition
from sluicegate_reports.runner.brokers.jars import SHIPPED, folder
from sluicegate_reports.runner.scenario import SYSTEMS

if TYPE_CHECKING:
    from sluicegate.gateway.plugins import Plugins
    from sluicegate_reports.runner.doors import Arm
    from sluicegate_reports.runner.loading import LoadedScenario

    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic in later versions only

_SHIPPED = Path(__file__).parents[1] / "scenarios"
_USAGE = 2


def shipped() -> dict[str, Path]:
    """The scenarios that come with the product, by name."""
    return {file.stem: file for file in sorted(_SHIPPED.glob("*.yaml"))}


class _Names(_ParamType):
    """Names with commas between them.

    :param what: for messages.
    :param known: gives the names that may be given, those of other packages too.
    """

    name = "names"

    def __init__(self, what: str, known: Callable[[], Iterable[str]]) -> None:
        self._what = what
        self._known = known

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Read the names; an unknown one ends the command and lists the known ones."""
        if isinstance(value, tuple):
            return value
        given = tuple(part.strip() for part in str(value).split(",") if part.strip())
        known = tuple(self._known())
        for each in given:
            if each not in known:
                self.fail(f"unknown {self._what} {each!r}: expected some of {', '.join(known)}", param, ctx)
        if not given:
            self.fail(f"no {self._what} is named: expected some of {', '.join(known)}", param, ctx)
        return tuple(dict.fromkeys(given))


class _Addresses(_ParamType):
    """host:port, several with commas between them."""

    name = "host:port"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Read them as the configuration file does."""
        from pydantic_core import PydanticCustomError

        from sluicegate.config.units import parse_address

        if isinstance(value, tuple):
            return value
        try:
            return tuple(str(parse_address(part.strip())) for part in str(value).split(","))
        except PydanticCustomError as error:
            context = error.context or {}
            self.fail(f"{context['problem']}: {context['remedy']}", param, ctx)


class _Place(_ParamType):
    """NAME=host:port of a system that another package brings."""

    name = "place"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, ...]]:
        """Read the name and the addresses."""
        if isinstance(value, tuple):
            return value
        name, _, addresses = str(value).partition("=")
        others = [each for each in registry.kinds() if each not in SYSTEMS]
        if name in SYSTEMS:
            self.fail(f"{name} has an option of its own: --{name} {addresses or 'HOST:PORT'}", param, ctx)
        if name not in others:
            expected = ", ".join(others) or "none, as no package brings one"
            self.fail(f"unknown system {name!r}: systems of other packages are {expected}", param, ctx)
        return name, _Addresses().convert(addresses, param, ctx)


class _Url(_ParamType):
    """http://host:port."""

    name = "url"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read it."""
        text = str(value).rstrip("/")
        if not text.startswith(("http://", "https://")) or "/" in text.partition("://")[2]:
            self.fail(f"{value!r} is no address of an admin API: write 'http://host:port'", param, ctx)
        return text


_DOORS = ("proxy", "interceptor", "native")
"""Those that are played unless others are asked for."""


def _known_doors() -> Iterable[str]:
    from sluicegate_reports.runner.doors import known_doors

    return known_doors()


@click.command("run")
@click.argument("scenario", metavar="SCENARIO")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of the run, which must be new or empty; compare-NAME if it is left out.",
)
@click.option(
    "--systems",
    type=_Names("system", registry.kinds),
    default=SYSTEMS,
    help="Some of kafka,pulsar,danube, and of the systems of installed packages.",
)
@click.option(
    "--doors",
    type=_Names("door", _known_doors),
    default=_DOORS,
    help="Some of proxy,interceptor,native, and of the doors of installed packages.",
)
@click.option("--kafka", type=_Addresses(), help="A Kafka that runs; else one is started from its jars.")
@click.option("--pulsar", type=_Addresses(), help="A Pulsar that runs; else one is started from its jars.")
@click.option("--pulsar-admin", type=_Url(), help="Its admin API.")
@click.option("--danube", type=_Addresses(), help="A Danube that runs; else the reference broker is started.")
@click.option("--danube-admin", type=_Url(), help="Its admin API.")
@click.option(
    "--at",
    type=_Place(),
    multiple=True,
    metavar="NAME=HOST:PORT",
    help="Where a system of an installed package runs; may be given several times.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 100),
    metavar="N",
    default=1,
    show_default=True,
    help="Play it so often, into run-1 to run-N below --out; the report then tells medians with intervals.",
)
@click.option(
    "--embedded", is_flag=True, help="Stand-ins instead of real brokers: seconds to start, never to judge by."
)
def run(
    scenario: str,
    out: Path | None,
    systems: tuple[str, ...],
    doors: tuple[str, ...],
    at: tuple[tuple[str, tuple[str, ...]], ...],
    repeat: int,
    embedded: bool,
    **places: tuple[str, ...] | str | None,
) -> None:
    """Play SCENARIO against each system, through each door.

    SCENARIO is a file, or the name of one that comes with the product (`sluicegate compare scenarios`). The
    directory of the run is what `sluicegate report compare` makes the report from. An arm that cannot be
    played is told and the others go on; the exit code is 1 if none could be in one of the
    repetitions.
    """
    from sluicegate.gateway.plugins import PluginError, load_plugins

    try:
        plugins = load_plugins(())
    except PluginError as error:
        raise click.ClickException(str(error)) from None
    loaded = _load(scenario, plugins)
    places.update(at)
    _refuse_unused(systems, places)
    given = _given(loaded, places)
    arms = _arms(systems, doors)
    directory = _directory(out or Path(f"compare-{loaded.scenario.name}"))
    played = True
    for number in range(1, repeat + 1):
        of_one = directory
        if repeat > 1:
            click.echo(f"repetition {number} of {repeat}")
            of_one = _directory(repetition(directory, number))
        played = bool(_play(loaded, arms, of_one, plugins, given, embedded)) and played
    click.echo(f"\nrun in {directory}; now: sluicegate report compare {shlex.quote(str(directory))}")
    sys.exit(0 if played else 1)


@click.command("scenarios")
def scenarios() -> None:
    """List the scenarios that come with the product."""
    from sluicegate.gateway.plugins import load_plugins

    plugins = load_plugins(())
    for name in shipped():
        loaded = _load(name, plugins)
        click.echo(f"{name:20} {loaded.scenario.duration_ms / 1000:5.0f} s  {loaded.scenario.title}")


@click.command("fetch")
@click.argument("names", metavar="[NAME]...", nargs=-1, type=click.Choice([each.name for each in SHIPPED]))
def fetch(names: tuple[str, ...]) -> None:
    """Fetch the jars of real brokers with Maven: kafka, pulsar, strimzi, or all of them without a NAME.

    `sluicegate compare run` starts brokers from them where no address is given. They go into the user's cache
    (XDG_CACHE_HOME, ~/.cache), or in a source tree beside their pom. What is complete is not fetched again.
    SLUICEGATE_KAFKA_LIBS, SLUICEGATE_PULSAR_LIBS and SLUICEGATE_STRIMZI_LIBS may name folders that hold the
    jars already. The exit code is 1 if some cannot be had.
    """
    from sluicegate_reports.runner.brokers.fetching import fetch_all

    wanted = [each for each in SHIPPED if not names or each.name in names]
    if not fetch_all(wanted, click.echo):
        sys.exit(1)
    for each in wanted:
        click.echo(f"{each.name}: {folder(each)}")


@click.group("compare")
def compare() -> None:
    """Compare how the systems keep the same policies."""
    try:
        registry.check()
        _known_doors()
    except registry.RegistryError as error:
        raise click.UsageError(str(error)) from None


compare.add_command(run)
compare.add_command(scenarios)
compare.add_command(fetch)


def _load(scenario: str, plugins: "Plugins") -> "LoadedScenario":
    from sluicegate.config.errors import ConfigErrors
    from sluicegate_reports.runner.loading import load_scenario

    file = Path(scenario)
    if not file.exists() and "/" not in scenario and not file.suffix:
        known = shipped()
        if scenario not in known:
            raise click.UsageError(
                f"no file and no scenario {scenario!r}: give a file, or one of {', '.join(known)}"
            )
        file = known[scenario]
    try:
        return load_scenario(file, plugins.policy_models)
    except ConfigErrors as refused:
        count = len(refused.errors)
        click.echo(refused.render(), err=True)
        click.echo(f"\n{file}: {count} error{'' if count == 1 else 's'}, nothing was started", err=True)
        sys.exit(_USAGE)


def _refuse_unused(systems: tuple[str, ...], places: Mapping[str, tuple[str, ...] | str | None]) -> None:
    """An address of a system that is not played would be skipped, and its broker never judged."""
    for name, value in places.items():
        system = name.removesuffix("_admin")
        if value and system not in systems:
            option = f"--{name.replace('_', '-')}" if system in SYSTEMS else f"--at {name}"
            raise click.UsageError(
                f"{option} is of no use with --systems {','.join(systems)}: "
                f"add {system} there, or leave it out"
            )


def _given(
    loaded: "LoadedScenario", places: Mapping[str, tuple[str, ...] | str | None]
) -> dict[str, tuple[str, ...]]:
    """Addresses by name of the broker; options win over the scenario."""
    found: dict[str, tuple[str, ...]] = {}
    for system in registry.kinds():
        place = getattr(loaded.scenario.systems, system)
        if place is not None:
            found[system] = tuple(str(address) for address in place.bootstrap)
            if admin := getattr(place, "admin", None):
                found[f"{system}-admin"] = (admin.rstrip("/"),)
    for name, value in places.items():
        if value:
            found[name.replace("_", "-")] = (value,) if isinstance(value, str) else value
    for system in ("pulsar", "danube"):
        if f"{system}-admin" in found and system not in found:
            raise click.UsageError(f"--{system}-admin is of no use without an address: give --{system} too")
    return found


def _arms(systems: tuple[str, ...], doors: tuple[str, ...]) -> "list[Arm]":
    from sluicegate_reports.runner.doors import arms_of

    return arms_of(systems, doors)


def _directory(out: Path) -> Path:
    directory = out.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        empty = not any(directory.iterdir())
    except OSError as error:
        raise click.UsageError(
            f"{str(out)!r} cannot be used: {error.strerror}; give another directory by --out"
        ) from None
    if not empty:
        raise click.UsageError(f"{str(out)!r} is not empty: give a new or empty directory by --out")
    return directory


def _play(
    loaded: "LoadedScenario",
    arms: "list[Arm]",
    directory: Path,
    plugins: "Plugins",
    given: Mapping[str, tuple[str, ...]],
    embedded: bool,
) -> int:
    """Play; returns how many arms were."""
    from rich.console import Console

    from sluicegate_reports.runner.shown import play_shown

    command = " ".join(["sluicegate", *map(shlex.quote, sys.argv[1:])])
    try:
        run = play_shown(
            loaded,
            arms,
            directory,
            plugins,
            console=Console(),
            command=command,
            given=given,
            embedded=embedded,
        )
    except asyncio.CancelledError:
        raise click.Abort from None
    except OSError as error:
        raise click.ClickException(f"the run's directory cannot be written: {error}") from None
    return len({(phase.name) for phase in run.facts.phases})
