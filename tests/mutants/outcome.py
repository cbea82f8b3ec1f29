"""What came of each mutant, read from the files that mutmut leaves."""

import ast
import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import orig_function_and_class_names_from_key
from tests.mutants.staging import staged
from tests.mutants.targets import ROOT, Change, Target

_SURVIVED, _UNTESTED, _TIMED_OUT = "survived", "no tests", "timeout"
_UNTOLD = ("not checked", "check was interrupted by user")
_HUNK = re.compile(r"@@ -(\d+)")


@dataclass(frozen=True, slots=True)
class Noted:
    """A mutant to be told of: no test noticed it, or it took too long."""

    line: int
    change: Change
    status: str
    """What became of it, in mutmut's words."""


@dataclass(slots=True)
class Outcome:
    """What came of all mutants of a target."""

    counts: Counter[str] = field(default_factory=Counter)
    """How many there are by what became of them, in mutmut's words."""
    noted: list[Noted] = field(default_factory=list)

    @property
    def survivors(self) -> list[Noted]:
        """Mutants that no test noticed."""
        return [noted for noted in self.noted if noted.status != _TIMED_OUT]

    @property
    def timed_out(self) -> list[Noted]:
        """Mutants that took too long: they loop, or the machine was busy."""
        return [noted for noted in self.noted if noted.status == _TIMED_OUT]

    @property
    def is_whole(self) -> bool:
        """False if the run ended early."""
        return bool(self.counts) and not any(self.counts[status] for status in _UNTOLD)


def read(target: Target, folder: Path) -> Outcome:
    """What mutmut found out.

    :param folder: where the target was staged.
    """
    outcome = Outcome()
    with contextlib.chdir(folder):
        for file in target.files:
            meta = Path("mutants") / f"{staged(file)}.meta"
            if not meta.exists():
                continue  # nothing in it that mutmut would change
            functions = dict(_functions(ast.parse((ROOT / file).read_text())))
            for mutant, code in json.loads(meta.read_text())["exit_code_by_key"].items():
                status = status_by_exit_code[code]
                outcome.counts[status] += 1
                if status in {_SURVIVED, _UNTESTED, _TIMED_OUT}:
                    outcome.noted.append(_noted(file, functions, mutant, status))
    outcome.noted.sort(key=lambda noted: (noted.change.file, noted.line))
    return outcome


def forget_survivors(target: Target, folder: Path) -> None:
    """Have mutmut try again what survived or took too long.

    :param folder: where the target was staged.
    """
    for file in target.files:
        path = folder / "mutants" / f"{staged(file)}.meta"
        if path.exists():
            meta = json.loads(path.read_text())
            codes = meta["exit_code_by_key"]
            for mutant, code in codes.items():
                if status_by_exit_code[code] in {_SURVIVED, _UNTESTED, _TIMED_OUT}:
                    codes[mutant] = None
            path.write_text(json.dumps(meta))


def _noted(file: str, functions: dict[str, ast.stmt], mutant: str, status: str) -> Noted:
    function, owner = orig_function_and_class_names_from_key(mutant)
    name = f"{owner}.{function}" if owner else function
    diff = get_diff_for_mutant(mutant, path=staged(file)).splitlines()[2:]
    was, becomes = (" / ".join(line[1:].strip() for line in diff if line[0] == sign) for sign in "-+")
    return Noted(_line(file, functions[name], diff), Change(file, name, was, becomes), status)


def _line(file: str, function: ast.stmt, diff: list[str]) -> int:
    """The line of the file that is changed: the one with its text nearest to where the diff says it is."""
    hunk = _HUNK.match(diff[0])
    assert hunk is not None
    before = next(at for at, line in enumerate(diff[1:]) if line[0] == "-")
    text = diff[1 + before][1:].strip()
    about = function.lineno + int(hunk[1]) - 1 + before
    lines = (ROOT / file).read_text().splitlines()
    of_function = range(function.lineno, (function.end_lineno or 0) + 1)
    found = [at for at in of_function if lines[at - 1].strip() == text]
    return min(found, key=lambda at: abs(at - about), default=about)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{node.name}.")
