"""Runs of small scenarios, as the command makes them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.rows import rows_with

from sluicegate.decisions.reading import read_decisions
from sluicegate.runtime.plugins import load_plugins
from sluicegate_reports.model.runs import Run, read_run
from sluicegate_reports.runner.doors import arms_of
from sluicegate_reports.runner.loading import load_scenario
from sluicegate_reports.runner.running import Comparison

Row = dict[str, Any]


@dataclass(slots=True)
class Silent:
    """Keeps what would be shown."""

    said: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)

    def begin(self, arm: str, seconds: float) -> None:
        self.said.append(f"begin {arm}")

    def at(self, seconds: float, counts: object) -> None:
        pass

    def end(self, arm: str, missing: str) -> None:
        self.said.append(f"end {arm}: {missing}")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run that was made."""

    directory: Path
    run: Run
    said: list[str]

    def decisions(self, **columns: object) -> list[Row]:
        """Rows of the decision log with these values."""
        return rows_with(read_decisions(self.directory / "decisions"), columns)

    def observations(self, **columns: object) -> list[Row]:
        """Rows of the observations with these values; `topic` by the scenario's name."""
        files = (self.directory / "observations").glob("run=*/system=*/part-*.parquet")
        return [row for file in files for row in rows_with(pq.ParquetFile(file).read(), columns)]


Record = Callable[..., Any]
"""`await record(text, systems, doors, **given) -> Recorded`."""


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Play a scenario on stand-ins; further arguments are addresses of brokers."""

    async def play(
        text: str, systems: tuple[str, ...], doors: tuple[str, ...], **given: tuple[str, ...]
    ) -> Recorded:
        file = tmp_path / "scenario.yaml"
        file.write_text(text)
        plugins = load_plugins(())
        loaded = load_scenario(file, plugins.policy_models)
        directory = tmp_path / "run"
        directory.mkdir()
        progress = Silent()
        arms = arms_of(systems, doors)
        made = Comparison(loaded, arms, directory, plugins, progress, "a test", given, embedded=True)
        await made.play()
        return Recorded(directory, read_run(directory), progress.said)

    return play
