"""A plugin of pytest: stock clients of the tests are the wrappers, with a policy file that sets nothing.

It is loaded before the tests import their clients: `pytest -p tests.kafka.real.support.wrapped`.
"""

from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiokafka
import confluent_kafka
import pytest

import sluicegate_kafka.client
from sluicegate.embedded import PolicyEngine

_FOLDER = TemporaryDirectory(prefix="wrapped-")
_opened: Counter[str] = Counter()


@cache
def _policies() -> PolicyEngine:
    file = Path(_FOLDER.name) / "policies.yaml"
    file.write_text(
        "brokers: [{name: main, system: kafka, bootstrap: ['127.0.0.1:1']}]\n"
        f"state_dir: {_FOLDER.name}/state\n"
        "decisions: {enabled: false}\n"
    )
    return PolicyEngine.from_file(file, environ={}, door="client")


def _swap(library: Any, name: str) -> None:
    wrapper: type[Any] = getattr(sluicegate_kafka.client, name)

    def begin(self: Any, *args: Any, policies: object = None, **options: Any) -> None:
        _opened[name] += 1
        wrapper.__init__(self, *args, policies=policies or _policies(), **options)

    setattr(library, name, type(name, (wrapper,), {"__init__": begin}))


for _library, _name in (
    (aiokafka, "AIOKafkaConsumer"),
    (aiokafka, "AIOKafkaProducer"),
    (confluent_kafka, "Consumer"),
    (confluent_kafka, "Producer"),
):
    _swap(_library, _name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many clients the tests opened in this process."""
    opened = ", ".join(f"{count} {name}" for name, count in sorted(_opened.items()))
    terminalreporter.write_line(f"wrapped clients: {opened or 'none in this process'}")


def pytest_unconfigure() -> None:
    """End the policies and remove their file."""
    if _policies.cache_info().currsize:
        _policies().close()
    _FOLDER.cleanup()
