"""The wheel, built once, and a fresh environment for each extra."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_FOREIGN = ("PYTHONPATH", "PYTHONSAFEPATH", "SLUICEGATE_LOAD_PLUGINS")
"""Variables of whoever runs the tests that a user does not have."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """An environment with nothing in it but the wheel and one extra."""

    extra: str
    """Empty for none."""
    python: Path
    directory: Path
    """Where its commands run."""

    def run(self, *arguments: str | Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run its Python; the output holds both streams."""
        env = {name: value for name, value in os.environ.items() if name not in _FOREIGN} | variables
        return subprocess.run(
            [self.python, *arguments],
            cwd=self.directory,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def sluicegate(self, *arguments: str | Path, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run `python -m sluicegate`."""
        return self.run("-m", "sluicegate", *arguments, **variables)

    def program(self, name: str) -> "subprocess.CompletedProcess[str]":
        """Run one of the modules in `programs`."""
        return self.run("-m", f"tests.install.programs.{name}", PYTHONPATH=str(_ROOT))


def _pip(*arguments: str | Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True
    )


def installed(distribution: Path, extra: str, directory: Path) -> Fresh:
    """Make an environment with nothing in it but a distribution and one extra.

    :param distribution: a wheel or an sdist.
    :param extra: empty for none.
    :param directory: an empty one.
    """
    # One pip serves all environments: to install it into each takes longer than most of them need otherwise.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True)
    python = directory / "venv/bin/python"
    _pip("--python", python, "install", f"{distribution}[{extra}]" if extra else distribution)
    return Fresh(extra, python, directory)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution, as users get it."""
    directory = tmp_path_factory.mktemp("wheel")
    _pip("wheel", "--no-deps", "--wheel-dir", directory, _ROOT)
    [made] = directory.glob("*.whl")
    return made


@pytest.fixture(scope="session", params=["", "kafka", "pulsar", "danube", "grpc", "budgets", "reports"])
def fresh(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """An environment for each extra in turn."""
    extra: str = request.param
    return installed(wheel, extra, tmp_path_factory.mktemp(extra or "none"))
