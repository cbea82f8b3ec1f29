"""A copy of the project in which mutmut finds its way.

mutmut imports what it mutated from one folder, `src`, and here the packages stand in six. So they are copied
below one.
"""

import json
import re
import shutil
import tomllib
from pathlib import Path

from tests.mutants.targets import ROOT, Target

SOURCE = "src"
_PYTEST = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
_TIMES_AS_LONG, _AT_LEAST_S = 5, 50
"""How long a mutant may take: by its tests unchanged, and whatever they take."""
_ALSO = ["benchmarks"]
"""What tests import that is no package of the product."""
_TOPMOST = re.compile("^.*/(?=sluicegate)")
"""The folder in which a package stands."""


def stage(target: Target, folder: Path, *, is_again: bool = False) -> None:
    """Copy packages and tests to a folder, and the settings for mutmut.

    :param folder: made anew.
    :param is_again: keep what the folder has, so that mutmut tries only functions that changed since.
    """
    if not is_again:
        shutil.rmtree(folder, ignore_errors=True)
    project = (ROOT / "pyproject.toml").read_text()
    unwanted = shutil.ignore_patterns("__pycache__", "node_modules", "target")
    for package in tomllib.loads(project)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        place = folder / SOURCE / Path(package).name
        shutil.copytree(ROOT / package, place, ignore=unwanted, dirs_exist_ok=True)
    for beside in ("tests", *_ALSO):
        shutil.copytree(ROOT / beside, folder / beside, ignore=unwanted, dirs_exist_ok=True)
    project = re.sub("(?m)^mypy_path = .*$", f'mypy_path = ["{SOURCE}"]', project)
    (folder / "pyproject.toml").write_text(f"{project}\n{_settings(target, folder.parent / 'mypy')}")


def staged(file: str) -> str:
    """Where a file of the project stands in the copy."""
    return f"{SOURCE}/{_TOPMOST.sub('', file)}"


def _settings(target: Target, mypy_cache: Path) -> str:
    files = [staged(file) for file in target.files]
    types = ["mypy", *files, "--output", "json", "--disable-error-code", "unused-ignore"]
    settings: dict[str, object] = {
        "source_paths": [SOURCE],
        "only_mutate": files,
        "also_copy": _ALSO,
        "pytest_add_cli_args": [*_PYTEST, *(f"--deselect={test}" for test in target.without)],
        "pytest_add_cli_args_test_selection": list(target.tests),
        "timeout_multiplier": _TIMES_AS_LONG,
        "timeout_constant": _AT_LEAST_S // _TIMES_AS_LONG,
        "type_check_command": [*types, "--cache-dir", str(mypy_cache)],
        "use_git_change_detection": False,
    }
    # A value of JSON that is a number, a text, a list of texts or true is one of TOML, too.
    return "\n".join(["[tool.mutmut]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())])
