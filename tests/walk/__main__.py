"""Shows through which files of the product one message passes, and how often it moves between them.

Run `PYTHONPATH=. python -m tests.walk`, or with names of cases to see the whole way of each.
"""

import argparse

from tests.walk.cases import CASES
from tests.walk.figures import recorded, walks_of
from tests.walk.recording import Walk


def main() -> int:
    """0 if no walk is longer than recorded, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.walk", description=__doc__)
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help=f"of: {', '.join(CASES)}; shows its whole way"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - set(CASES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(CASES)}")
    walks = {name: walk for case in arguments.cases or CASES for name, walk in walks_of(case).items()}
    if arguments.cases:
        for name, walk in walks.items():
            if not name.endswith("-both"):
                _show(name, walk)
    return max(_tell(name, walk) for name, walk in walks.items())


def _show(name: str, walk: Walk) -> None:
    print(f"{name}:")
    for number, stop in enumerate(walk.stops):
        print(f"{number:5} {stop.module}: {stop.function}")
    print()


def _tell(name: str, walk: Walk) -> int:
    figures = recorded()[name]
    goal = f", goal {figures.goal[0]} / {figures.goal[1]}" if figures.goal else ""
    most_files, most_moves = figures.at_most
    print(f"{name:16} {walk.files:3} files {walk.moves:4} moves (recorded {most_files} / {most_moves}{goal})")
    return int(walk.files > most_files or walk.moves > most_moves)


if __name__ == "__main__":
    raise SystemExit(main())
