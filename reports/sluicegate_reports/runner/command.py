"""`sluicegate compare run`, `sluicegate compare scenarios` and `sluicegate compare fetch`."""

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from sluicegate.output import echo, echo_document
from sluicegate_reports import registry
from sluicegate_reports.model.repetitions import repetition
from sluicegate_reports.runner.brokers.jars import SHIPPED, folder
from sluicegate_reports.runner.scenario import SYSTEMS

if TYPE_CHECKING:
    from sluicegate.runtime.plugins import Plugins
    from sluicegate_reports.runner.doors import Arm
    from sluicegate_reports.runner.loading import LoadedScenario

_Command = TypeVar("_Command", bound=Callable[..., object])

_SHIPPED = Path(__file__).parents[1] / "scenarios"
_USAGE = 2


def shipped() -> dict[str, Path]:
    """The scenarios that come with the product, by name."""
    return {file.stem: file for file in sorted(_SHIPPED.glob("*.yaml"))}


def _names(what: str, known: Iterable[str], given: str) -> tuple[str, ...]:
    """Read names with commas between them.

    :param what: for messages.
    :param known: the names that may be given, those of other packages too.
    :raises click.BadParameter: for an unknown one, with the known ones.
    """
    names = tuple(part.strip() for part in given.split(",") if part.strip())
    expected = list(known)
    for each in names:
        if each not in expected:
            raise click.BadParameter(f"unknown {what} {each!r}: expected some of {', '.join(expected)}")
    if not names:
        raise click.BadParameter(f"no {what} is named: expected some of {', '.join(expected)}")
    return tuple(dict.fromkeys(names))


def _systems(given: str) -> tuple[str, ...]:
    return _names("system", registry.kinds(), given)


def _doors(given: str) -> tuple[str, ...]:
    return _names("door", _known_doors(), given)


def _addresses(given: str) -> tuple[str, ...]:
    """Read host:port, several with commas between them, as the configuration file does."""
    from pydantic_core import PydanticCustomError

    from sluicegate.config.units import parse_address

    try:
        return tuple(str(parse_address(part.strip())) for part in given.split(","))
    except PydanticCustomError as error:
        context = error.context or {}
        raise click.BadParameter(f"{context['problem']}: {context['remedy']}") from None


def _named_address(given: str) -> tuple[str, tuple[str, ...]]:
    """Read NAME=host:port of a system that another package brings."""
    name, _, addresses = given.partition("=")
    others = [each for each in registry.kinds() if each not in SYSTEMS]
    if name in SYSTEMS:
        raise click.BadParameter(f"{name} has an option of its own: --{name} {addresses or 'HOST:PORT'}")
    if name not in others:
        expected = ", ".join(others) or "none, as no package brings one"
        raise click.BadParameter(f"unknown system {name!r}: systems of other packages are {expected}")
    return name, _addresses(addresses)


def _url(given: str) -> str:
    """Read http://host:port."""
    text = given.rstrip("/")
    if not text.startswith(("http://", "https://")) or "/" in text.partition("://")[2]:
        raise click.BadParameter(f"{given!r} is no address of an admin API: write 'http://host:port'")
    return text


def _at(name: str, text: str) -> Callable[[_Command], _Command]:
    """An option that says where a system is."""
    return click.option(name, type=_addresses, metavar="HOST:PORT", help=text)


def _admin(name: str) -> Callable[[_Command], _Command]:
    """An option that says where a system's admin API is."""
    return click.option(name, type=_url, metavar="URL", help="Its admin API.")


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
    type=_systems,
    metavar="NAMES",
    default=",".join(SYSTEMS),
    help="Some of kafka,pulsar,danube, and of the systems of installed packages.",
)
@click.option(
    "--doors",
    type=_doors,
    metavar="NAMES",
    default="proxy,interceptor,native,direct",
    help="Some of proxy,interceptor,native,direct, and of the doors of installed packages.",
)
@_at("--kafka", "A Kafka that runs; else one is started from its jars.")
@_at("--pulsar", "A Pulsar that runs; else one is started from its jars.")
@_admin("--pulsar-admin")
@_at("--danube", "A Danube that runs; else the reference broker is started.")
@_admin("--danube-admin")
@click.option(
    "--at",
    type=_named_address,
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
    help="Repetitions, in run-1 to run-N below --out; the report then gives medians with intervals.",
)
@click.option(
    "--embedded",
    is_flag=True,
    help="Stand-ins instead of real brokers: they start in seconds, and their figures mean nothing.",
)
def run(
    scenario: str,
    out: Path | None,
    systems: tuple[str, ...],
    doors: tuple[str, ...],
    at: tuple[tuple[str, tuple[str, ...]], ...],
    repeat: int,
    embedded: bool,
    **given_options: tuple[str, ...] | str | None,
) -> None:
    """Play SCENARIO against each system, through each door.

    SCENARIO is a file, or the name of one that comes with the product (`sluicegate compare scenarios`). The
    directory of the run is what `sluicegate report compare` makes the report from. An arm that cannot be
    played is reported, and the others continue. The exit code is 1 if no arm of a repetition could be played.
    """
    from sluicegate.runtime.plugins import PluginError, load_plugins
    from sluicegate_reports.runner.doors import arms_of

    try:
        plugins = load_plugins(())
    except PluginError as error:
        raise click.ClickException(str(error)) from None
    loaded = _load(scenario, plugins)
    given_options.update(at)
    _refuse_unused(systems, given_options)
    given = _given(loaded, given_options)
    arms = arms_of(systems, doors)
    directory = _directory(out or Path(f"compare-{loaded.scenario.name}"))
    played = True
    for number in range(1, repeat + 1):
        of_one = directory
        if repeat > 1:
            echo(f"repetition {number} of {repeat}")
            of_one = _directory(repetition(directory, number))
        played = bool(_play(loaded, arms, of_one, plugins, given, embedded)) and played
    echo("", f"run in {directory}; now: sluicegate report compare {shlex.quote(str(directory))}")
    sys.exit(0 if played else 1)


@click.command("scenarios")
def scenarios() -> None:
    """List the scenarios that come with the product."""
    from sluicegate.runtime.plugins import load_plugins

    plugins = load_plugins(())
    for name in shipped():
        loaded = _load(name, plugins)
        echo(f"{name:20} {loaded.scenario.duration_ms / 1000:5.0f} s  {loaded.scenario.title}")


@click.command("fetch")
@click.argument("names", metavar="[NAME]...", nargs=-1, type=click.Choice([each.name for each in SHIPPED]))
def fetch(names: tuple[str, ...]) -> None:
    """Fetch jars with Maven: kafka, pulsar, strimzi, s3 (Spark's way to S3), or all of them without a NAME.

    `sluicegate compare run` starts brokers from them where no address is given. They go into the user's cache
    (XDG_CACHE_HOME, ~/.cache), or in a source tree beside their pom. What is complete is not fetched again.
    SLUICEGATE_KAFKA_LIBS, SLUICEGATE_PULSAR_LIBS, SLUICEGATE_STRIMZI_LIBS and SLUICEGATE_S3_LIBS may name
    folders that hold the jars already. The exit code is 1 if some cannot be had.
    """
    from sluicegate_reports.runner.brokers.fetching import fetch_all

    wanted = [each for each in SHIPPED if not names or each.name in names]
    if not fetch_all(wanted, echo):
        sys.exit(1)
    for each in wanted:
        echo(f"{each.name}: {folder(each)}")


@click.group("compare")
def compare() -> None:
    """Record a comparison: play one scenario against each system."""
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
    if not file.is_file() and "/" not in scenario and not file.suffix:  # it may name a folder, as of a run
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
        echo_document(refused.render(), err=True)
        echo("", f"{file}: {count} error{'' if count == 1 else 's'}, nothing was started", err=True)
        sys.exit(_USAGE)


def _refuse_unused(
    systems: tuple[str, ...], given_options: Mapping[str, tuple[str, ...] | str | None]
) -> None:
    """Refuse an address of a system that is not played: it would be ignored without a word."""
    for name, value in given_options.items():
        system = name.removesuffix("_admin")
        if value and system not in systems:
            option = f"--{name.replace('_', '-')}" if system in SYSTEMS else f"--at {name}"
            raise click.UsageError(
                f"{option} is of no use with --systems {','.join(systems)}: "
                f"add {system} there, or leave it out"
            )


def _given(
    loaded: "LoadedScenario", given_options: Mapping[str, tuple[str, ...] | str | None]
) -> dict[str, tuple[str, ...]]:
    """Addresses by name of the broker; options win over the scenario."""
    addresses: dict[str, tuple[str, ...]] = {}
    for system in registry.kinds():
        endpoints = getattr(loaded.scenario.systems, system)
        if endpoints is not None:
            addresses[system] = tuple(str(address) for address in endpoints.bootstrap)
            if admin := getattr(endpoints, "admin", None):
                addresses[f"{system}-admin"] = (admin.rstrip("/"),)
    for name, value in given_options.items():
        if value:
            addresses[name.replace("_", "-")] = (value,) if isinstance(value, str) else value
    for system in ("pulsar", "danube"):
        if f"{system}-admin" in addresses and system not in addresses:
            raise click.UsageError(f"--{system}-admin is of no use without an address: give --{system} too")
    return addresses


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
    from sluicegate.output.console import Console
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
    return len({phase.name for phase in run.facts.phases})
