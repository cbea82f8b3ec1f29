"""The command line of the benchmarks."""

import argparse
import resource
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from benchmarks import scenarios
from benchmarks.harness import isolation, jars, report
from benchmarks.harness.arms import Bench
from benchmarks.harness.samples import Results
from benchmarks.harness.scenario import Scenario, run

_MODULES = [import_module(f"{scenarios.__name__}.{each.name}") for each in iter_modules(scenarios.__path__)]
SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for module in _MODULES for scenario in module.SCENARIOS
}
RESULTS = jars.ROOT / "benchmarks/results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for.

    :return: the exit code: 1 if a measurement failed or, with --check, a figure missed its bound.
    """
    options = _parse(arguments)
    if options.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:24}{scenario.summary} [{', '.join(scenario.arms)}]")
        return 0
    if not isolation.isolated():
        for problem in jars.prepare():
            print(f"preparation: {problem}", file=sys.stderr)
        isolation.enter()
        print(
            "running without a network namespace of its own, so without the arms that need one",
            file=sys.stderr,
        )
    return _measure(options, [SCENARIOS[name] for name in options.scenarios or SCENARIOS])


def _measure(options: argparse.Namespace, wanted: Sequence[Scenario]) -> int:
    signal.signal(signal.SIGTERM, _interrupt)
    _raise_descriptor_limit()
    about = report.environment(shlex.join(["python", "benchmarks/run.py", *sys.argv[1:]]))
    results, code = Results(), 0
    try:
        with ExitStack() as stack:
            bench = Bench(stack, _directory(stack, options.keep))
            for scenario in wanted:
                run(scenario, bench, results, options.runs or scenario.rounds, quick=options.quick)
    except KeyboardInterrupt:
        print(
            "\ninterrupted: every process has been ended; what was measured so far follows", file=sys.stderr
        )
        code = 130
    if results.samples:
        report.show(results)
        print(f"written: {report.write(results, about, RESULTS).relative_to(jars.ROOT)} (and .json)")
    if results.failed:
        code = code or 1
    for text in report.missed(results) if options.check else ():
        print(f"missed: {text}", file=sys.stderr)
        code = code or 1
    return code


def _directory(stack: ExitStack, keep: Path | None) -> Path:
    if keep is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluicegate-benchmark-")))
    keep.mkdir(parents=True)
    return keep.resolve()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/run.py", description="Compare Sluicegate with its peers."
    )
    parser.add_argument("scenarios", nargs="*", metavar="scenario", help="which to run; all if none is named")
    parser.add_argument("--list", action="store_true", help="say which scenarios there are")
    parser.add_argument(
        "--runs", type=int, metavar="N", help="rounds that count (default: each scenario's own)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="little work: shows that all works, no real figures"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure misses its bound")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="new folder for logs and data, kept afterwards"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.scenarios if name not in SCENARIOS]
    if unknown:
        parser.error(f"unknown scenario {unknown[0]!r}; expected one of {', '.join(SCENARIOS)}")
    if options.runs is not None and options.runs < 1:
        parser.error(f"--runs is {options.runs}, expected 1 or more")
    return options


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _raise_descriptor_limit() -> None:
    """Thousands of connections need as many descriptors here and in each proxy, which inherits the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
