"""The command line that compares this tree's relay with that of another commit."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.harness.jars import ROOT
from benchmarks.harness.small_messages import CASES
from benchmarks.harness.trees import ratios, worktree

_OLD, _AGAIN, _NEW = "old", "old again", "new"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, and print a table.

    :return: the exit code: 1 if a ratio is above --at-most, 2 if a tree cannot be measured.
    """
    options = _parse(arguments)
    try:
        with worktree(options.commit) as old, tempfile.TemporaryDirectory() as directory:
            trees = {_OLD: old, _AGAIN: old, _NEW: ROOT}
            print("case    " + f"{f'{_AGAIN} / {_OLD}':26}{_NEW} / {_OLD}")
            ratios_of = [
                _compare(case, trees, Path(directory) / case, options) for case in options.case or CASES
            ]
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    return int(options.at_most is not None and max(ratios_of) > options.at_most)


def _compare(case: str, trees: dict[str, Path], file: Path, options: argparse.Namespace) -> float:
    """Measure one case and print its row.

    :return: CPU time of the new tree by that of the old one.
    """
    file.write_text(CASES[case]().as_json())
    turns = [ratios(trees, _OLD, file, options.turns) for _ in range(options.processes)]
    shown = f"{case:8}"
    for name in (_AGAIN, _NEW):
        each = [median(of[name]) for of in turns]
        total = median(ratio for of in turns for ratio in of[name])
        shown += f"{f'{total:.3f} ({min(each):.3f} to {max(each):.3f})':26}"
    print(shown.rstrip(), flush=True)
    return total  # of the last one, which is new


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/against.py",
        description="Replay the same small messages through the relay of another commit and of this tree, "
        "without sockets, and print the ratio of CPU times: the median of all turns, and the least and the "
        "greatest median of a process. Three processes take turns. Two of them run the other commit: what "
        "these two differ by is noise.",
    )
    parser.add_argument("commit", help="what to compare with; 7cc81e9 or later")
    parser.add_argument(
        "--case", action="append", choices=CASES, help="which to run, more than once; else all"
    )
    parser.add_argument("--turns", type=int, default=15, metavar="N", help="replays of each process")
    parser.add_argument("--processes", type=int, default=5, metavar="N", help="how often to start them anew")
    parser.add_argument("--at-most", type=float, metavar="RATIO", help="exit with 1 if new/old is above")
    options = parser.parse_args(arguments)
    for name in ("turns", "processes"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}, expected 1 or more")
    return options
