"""Changes the code in small ways and says which changes no test notices.

Run `make mutants OF=NAME`, or `PYTHONPATH=. python -m tests.mutants NAME`.
"""

import argparse
import os
import subprocess
import sys

from tests.mutants.outcome import Outcome, forget_survivors, read
from tests.mutants.staging import stage
from tests.mutants.targets import ROOT, Target, equivalents, only, targets

_RUNS = ROOT / "build/mutants"
_SLOW = {"SLUICEGATE_SLOW_MACHINE": "1"}
"""Hypothesis tries fewer examples: a test by an example is to notice a change, not luck."""


def main() -> int:
    """0 if all survivors are known, 1 if one is not, 2 if the run did not come to its end."""
    known = targets()
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(known)}; without one, all")
    parser.add_argument("--file", default="*", help="only files whose name matches this pattern")
    parser.add_argument("--processes", type=int, default=1, help="mutants that are tried at a time")
    parser.add_argument(
        "--again", action="store_true", help="try only survivors of the last run and what changed"
    )
    parser.add_argument("--read", action="store_true", help="show what the last run found, without a new one")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(known)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(known)}")
    chosen = [only(known[name], arguments.file) for name in arguments.names or known]
    chosen = [target for target in chosen if target.files]
    if not chosen:
        parser.error(f"no file matches {arguments.file!r}")
    for target in chosen if not arguments.read else []:
        _run(target, arguments.processes, is_again=arguments.again)
    return max(_tell(target, read(target, _RUNS / target.name)) for target in chosen)


def _run(target: Target, processes: int, *, is_again: bool) -> None:
    folder = _RUNS / target.name
    stage(target, folder, is_again=is_again)
    if is_again:
        forget_survivors(target, folder)
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(processes)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | _SLOW
    with (_RUNS / f"{target.name}.log").open("w") as log:
        subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=False)


def _tell(target: Target, outcome: Outcome) -> int:
    known = equivalents()
    new = [survivor for survivor in outcome.survivors if survivor.change not in known]
    seen = {survivor.change for survivor in outcome.survivors}
    stale = [change for change in known if change.file in target.files and change not in seen]
    for noted in [*outcome.timed_out, *new]:
        change = noted.change
        print(f"{change.file}:{noted.line}: {change.function}: {noted.status}")
        print(f"  - {change.was}\n  + {change.becomes}")
    for change in stale if outcome.is_whole else []:
        print(f"{change.file}: {change.function}: noted as equivalent, but killed or gone: {change.was}")
    counts = ", ".join(f"{count} {status}" for status, count in outcome.counts.most_common())
    print(f"{target.name}: {counts}; {len(outcome.survivors) - len(new)} noted as equivalent, {len(new)} new")
    if not outcome.is_whole:
        print(f"{target.name}: the run did not come to its end: see build/mutants/{target.name}.log")
        return 2
    return 1 if new or stale else 0


if __name__ == "__main__":
    sys.exit(main())
