"""Lock what each extra installs, with hashes, in requirements/: `make lock`, `make lock UPGRADE=--upgrade`.

Versions are those for all extras together, so that one file never contradicts another. What is locked
stays, unless it no longer fits or `--upgrade` says otherwise.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKED = ROOT / "requirements"
NOTE = "# Made by `make lock`: change pyproject.toml, not this.\n"
_OPTIONS = ("--quiet", "--generate-hashes", "--universal", "--no-annotate", "--no-header")


def arguments() -> dict[str, list[str]]:
    """What each file locks, by its name without `.txt`: arguments of `uv pip compile`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest = f"--python-version={project['requires-python'].removeprefix('>=')}"
    one = [lowest, "--constraint=requirements/all.txt", "pyproject.toml"]
    return {
        "all": [lowest, "--all-extras", "pyproject.toml"],
        "core": one,
        **{extra: [f"--extra={extra}", *one] for extra in project["optional-dependencies"]},
        "release": [lowest, "--group=release"],
    }


def main() -> int:
    """Write all files; `sys.argv` holds further options for uv.

    :raises subprocess.CalledProcessError: when no versions fit; uv has said why on standard error.
    """
    for name, of_file in arguments().items():
        path = LOCKED / f"{name}.txt"
        command = ["uv", "pip", "compile", *_OPTIONS, *of_file, *sys.argv[1:], f"--output-file={path}"]
        subprocess.run(command, cwd=ROOT, check=True)
        path.write_text(NOTE + path.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
