"""List what a release consists of and brings, in CycloneDX: `python .ci/sbom.py WHEEL OUTPUT.cdx.json`.

The list is that of an environment with the wheel and all that requirements/all.txt locks.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path) -> None:
    """Run a module of this Python.

    :raises subprocess.CalledProcessError: when it fails.
    """
    subprocess.run([sys.executable, "-m", *command], check=True)


def listed(wheel: Path, directory: Path) -> Any:
    """The list.

    :param wheel: the one that is released.
    :param directory: an empty one, for an environment with all extras.
    """
    python, output = directory / "venv/bin/python", directory / "bom.json"
    run("venv", "--without-pip", directory / "venv")
    for what in (["--require-hashes", "-r", ROOT / "requirements/all.txt"], ["--no-deps", wheel]):
        run("pip", "--quiet", "--disable-pip-version-check", "--python", python, "install", *what)
    project = f"--pyproject={ROOT / 'pyproject.toml'}"
    run("cyclonedx_py", "environment", project, "--output-reproducible", f"--output-file={output}", python)
    return json.loads(output.read_text())


def main() -> int:
    """Write the list."""
    wheel, output = map(Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        found = listed(wheel, Path(name))
    _, version, *_ = wheel.name.split("-")
    found["metadata"]["component"]["version"] = version  # pyproject.toml does not state it
    output.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
