"""Running commands on a file in a directory of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.pulsar.cluster.recorded_api import ANSWERS, recorded_api

from sluicegate.cli import main

Run = Callable[..., Result]

BROKERS = """\
brokers:
  - name: main
    system: kafka
    bootstrap: ["127.0.0.1:9092"]
    listen: {port: 19092}
"""


@pytest.fixture
def run_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `sluicegate ARGUMENTS` where `gateway.yaml` holds a text, with only the product's own plugins."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")

    def run(text: str | None, *arguments: str) -> Result:
        if text is not None:
            Path("gateway.yaml").write_text(text)
        return CliRunner().invoke(main, arguments, catch_exceptions=False)

    return run


@pytest.fixture
def sluicegate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `sluicegate ARGUMENTS` in an empty directory, with the plugins of Kafka and Pulsar."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka,pulsar")
    return lambda *arguments: CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a Pulsar whose answers were recorded."""
    with recorded_api(ANSWERS) as (url, _):
        yield url
