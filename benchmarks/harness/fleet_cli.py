"""The command line of a program that plays one scene with a fleet of real processes."""

import argparse
import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness.fleet_events import Tell
from benchmarks.harness.redis import why_no_redis

Seen = TypeVar("Seen")


def options(
    arguments: Sequence[str] | None,
    text: str | None,
    defaults: Mapping[str, Any],
    choices: Mapping[str, Sequence[str]],
) -> argparse.Namespace:
    """Read an option for each attribute of a scene, and `keep`.

    :param text: the description of the program.
    :param defaults: attributes of the scene.
    :param choices: the only values of some of them.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="new folder for logs, kept afterwards")
    for name, default in defaults.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(option, action="store_true")
        else:
            parser.add_argument(option, type=type(default), default=default, choices=choices.get(name))
    read = parser.parse_args(arguments)
    if reason := why_no_redis():
        parser.error(reason)
    return read


def play(played: Callable[[Path, Tell], Seen], keep: Path | None) -> Seen:
    """Play a scene, and print each step.

    :param played: plays it with the files in a folder.
    :param keep: that folder; None for one that goes.
    """
    logging.disable(logging.WARNING)
    began_s = time.monotonic()

    def tell(text: str) -> None:
        print(f"[{time.monotonic() - began_s:5.1f} s] {text}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        return played(keep or Path(temporary), tell)
