"""Commands of the documents that other tests or CI run, and what can be told of them without running them."""

import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import takewhile

import click
from benchmarks import fleet_law, fleet_places
from benchmarks.against_cli import _parse as against_options
from benchmarks.cli import _parse as benchmark_options
from tests.docs.console import Command
from tests.house.test_documents import ROOT

from sluicegate.cli import main


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Commands that are not run here."""

    pattern: str
    """What the command begins with, as a regular expression."""
    reason: str
    run_by: str
    """The file that runs it, from the project's root."""
    words: str
    """What stands in that file."""


_SPARK = "starts Spark"
ELSEWHERE = (
    Elsewhere("make demo", "takes minutes", ".ci/run", "make demo demo-all"),
    Elsewhere("make test", "runs this test", ".ci/run", "make test"),
    Elsewhere("sluicegate demo", "takes minutes", "Makefile", "/sluicegate demo"),
    Elsewhere("pip install '", "downloads", "Makefile", "-m pip install"),
    Elsewhere(
        r"pip install \./examples",
        "would stay in this environment",
        "tests/docs/test_example_distribution.py",
        '"pip", "install"',
    ),
    Elsewhere(
        "pytest acme-lines --sluicegate-driver",
        "needs the distribution installed",
        "tests/cli/test_new_plugin.py",
        '"--sluicegate-driver", "doors"',
    ),
    Elsewhere(
        "curl -s --get http://127.0.0.1:9095/api/",
        "asks a running gateway",
        "tests/gateway/test_explain_running.py",
        '"--data-urlencode", f"topic={topic}"',
    ),
    *(
        Elsewhere(pattern, "asks a running gateway", "tests/gateway/test_policies_running.py", words)
        for pattern, words in (
            ("curl -X PATCH", '"-X", "PATCH"'),
            ("sluicegate policies set", '"policies", "set"'),
            ("sluicegate top", '"top", "--once"'),
        )
    ),
    *(
        Elsewhere(pattern, "asks a running gateway", "tests/gateway/test_rollouts_running.py", words)
        for pattern, words in (
            ("sluicegate policies rollouts", '"rollouts"'),
            ("sluicegate policies promote", '"promote", "topic", "t", SIZE, "--reason"'),
        )
    ),
    Elsewhere(
        "sluicegate import kafka",
        "asks a running broker",
        "tests/kafka/real/test_own_settings.py",
        'sluicegate("import", "kafka"',
    ),
    Elsewhere("sluicegate drift", "asks a running broker", "tests/cli/test_drift.py", 'sluicegate("drift"'),
    Elsewhere(
        "sluicegate danube failover run",
        "runs until it is ended",
        "tests/danube/failover/test_commands.py",
        '"failover", "run"',
    ),
    Elsewhere(
        "tox run -e failover",
        "starts an etcd, and takes a minute",
        ".github/workflows/broker-failover-e2e.yml",
        "tox run -e failover",
    ),
    *(
        Elsewhere(f"tox run -e {name}", "downloads", ".github/workflows/versions.yml", f"tox run -e {name}")
        for name in ("lowest", "py313", "release")
    ),
    Elsewhere("pip install --require-hashes", "downloads", "tests/install/release.py", '"--require-hashes"'),
    Elsewhere("pip install --no-deps", "downloads", "tests/install/release.py", "--no-deps"),
    Elsewhere("sluicegate compare fetch", "downloads", "Makefile", "brokers.fetching"),
    Elsewhere("sluicegate compare run", "takes minutes", "tests/reports/runner/test_runs.py", "record("),
    Elsewhere("sluicegate report compare", _SPARK, "tests/reports/commands/test_comparing.py", "compare("),
    Elsewhere(
        "sluicegate report archive-classes",
        _SPARK,
        "tests/reports/commands/test_archiving.py",
        '"archive-classes"',
    ),
    Elsewhere(r"echo \$\?", "is about the one before", "tests/reports/commands/test_commands.py", "fail-on"),
    Elsewhere("spark-submit", _SPARK, "tests/reports/jobs/test_stores.py", "spark-submit"),
    Elsewhere("sluicegate report follow", "needs a store", "tests/reports/jobs/test_stores.py", "follow("),
    Elsewhere("sluicegate report replay", _SPARK, "tests/reports/replaying/test_commands.py", '"replay"'),
    Elsewhere(
        "sluicegate report recommend",
        "needs a log",
        "tests/reports/recommending/test_baseline.py",
        '"recommend"',
    ),
    Elsewhere(r"python benchmarks/run\.py(?! --list)", "takes an hour", "tox.ini", "benchmarks/run.py"),
    Elsewhere(
        r"python benchmarks/against\.py",
        "takes minutes, and needs earlier commits",
        "tests/benchmarks/test_small_messages.py",
        "against_cli.main(",
    ),
    Elsewhere(
        r"python -m benchmarks\.fleet_law",
        "takes minutes",
        "tests/gateway/test_fleet.py",
        "fleet_law.played(",
    ),
    Elsewhere(
        r"python -m benchmarks\.fleet_places",
        "takes a minute",
        "tests/gateway/test_fleet.py",
        "fleet_places.played(",
    ),
)


_PROGRAMS: Mapping[str, Callable[[list[str]], object]] = {
    "benchmarks/run.py": benchmark_options,
    "benchmarks/against.py": against_options,
    "benchmarks.fleet_law": fleet_law.parsed,
    "benchmarks.fleet_places": fleet_places.parsed,
}
"""What reads their options."""


def elsewhere(command: Command) -> Elsewhere | None:
    """Who runs a command, if it is not run here."""
    return next((each for each in ELSEWHERE if re.match(each.pattern, command.bare)), None)


def problem(command: str) -> str:
    """What is wrong with a command that is not run: a name or an option that does not exist."""
    words = shlex.split(command)
    try:
        match words:
            case ["sluicegate", *arguments]:
                _parse(main, arguments)
            case ["spark-submit", "--master", _, "sluicegate_app.py", *arguments]:
                _parse(main, arguments)
            case ["make", target]:
                return "" if f"\n{target}:" in (ROOT / "Makefile").read_text() else f"no target {target}"
            case ["tox", "run", "-e", name]:
                return (
                    ""
                    if f"[testenv:{name}]\n" in (ROOT / "tox.ini").read_text()
                    else f"no environment {name}"
                )
            case ["pip", "install", *_, wanted]:
                return _installable(wanted)
            case (
                ["echo", "$?"]
                | ["curl", "-s", "--get", _, "--data-urlencode", _]
                | ["curl", "-X", *_]
                | ["pytest", _, "--sluicegate-driver", _]
            ):
                return ""
            case ["python", "-m", program, *arguments] | ["python", program, *arguments] if (
                program in _PROGRAMS
            ):
                _PROGRAMS[program](arguments)
            case _:
                return "nothing is known of this command"
    except click.ClickException as error:
        return error.format_message()
    except SystemExit as refused:
        return f"options are refused (exit code {refused.code})"
    return ""


def _parse(command: click.Command, arguments: list[str]) -> None:
    """Read the arguments as the command would; groups have none but the name of their command."""
    context = click.Context(command)
    while isinstance(command, click.Group):
        name, *arguments = arguments
        found = command.get_command(context, name)
        if found is None:
            raise click.UsageError(f"no command {name!r}")
        command, context = found, click.Context(found, context)
    command.make_context(command.name, arguments)


def _installable(wanted: str) -> str:
    if wanted.startswith("requirements/"):
        return "" if (ROOT / wanted).is_file() else f"no file {wanted}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = "".join(takewhile(lambda char: char != "[", wanted))
    extras = set(re.findall(r"\w+", wanted.removeprefix(name)))
    if name not in {project["name"], "."} and not (ROOT / name / "pyproject.toml").exists():
        return f"{name} is not this project nor a folder with one"
    unknown = extras - project["optional-dependencies"].keys()
    return f"unknown extras: {', '.join(sorted(unknown))}" if unknown else ""
