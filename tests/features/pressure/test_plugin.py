"""Which sources a broker's entry gives."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError
from tests.features.adaptive.lab import FakeContext
from tests.features.pressure.serving import ok, server

from sluicegate.config.models import BrokerConfig
from sluicegate.config.pressure_section import MemorySource, PressureConfig
from sluicegate.engine.pressure import PressureSource
from sluicegate.features.pressure.pacing import Paced
from sluicegate.features.pressure.plugin import sluicegate_pressure_sources
from sluicegate.testing import ManualClock


def sources(pressure: dict[str, Any] | None = None) -> Sequence[PressureSource]:
    context = FakeContext(ManualClock())
    entry = {"name": "events", "system": "any", "bootstrap": ["localhost:1"], "listen": {"port": 0}}
    context.config = BrokerConfig.model_validate({**entry, **({"pressure": pressure} if pressure else {})})
    return sluicegate_pressure_sources(context)


@pytest.mark.seed("S5-021")
async def test_without_a_section_the_gateways_own_memory_is_read() -> None:
    [source] = sources()
    assert (source.name, source.kind) == ("memory_gateway", "memory")
    share = await source.read()
    assert isinstance(share, float)
    assert 0 < share < 1


@pytest.mark.seed("S5-021")
async def test_all_kinds_together() -> None:
    text = 'jvm_memory_bytes_used{area="heap"} 1\njvm_memory_bytes_max{area="heap"} 4\n'
    async with server(lambda path: ok(text)) as broker:
        memory = [
            {"source": "gateway"},
            {"source": "process", "pid": 1},
            {"source": "metrics", "url": broker.url},
        ]
        found = sources({"memory": memory})
        assert [source.name for source in found] == ["memory_gateway", "memory_process_1", "memory_metrics_2"]
        assert await found[2].read() == 0.25
    assert sources({"memory": []}) == []


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"source": "magic"}, "gateway"),
        ({"source": "process"}, "needs either 'pid' or 'pidfile'"),
        ({"source": "process", "pid": 1, "pidfile": "x"}, "needs either"),
        ({"source": "process", "pid": 0}, "greater than 0"),
        ({"source": "metrics"}, "needs 'url'"),
        ({"source": "metrics", "url": "broker:8080"}, "pattern"),
        ({"source": "metrics", "url": "http://b", "used": "a"}, "'used' and 'max' belong together"),
        ({"source": "metrics", "url": "http://b", "used": "a b", "max": "c"}, "pattern"),
        ({"source": "gateway", "url": "http://b"}, "'url' is for source metrics, not for gateway"),
        ({"source": "metrics", "url": "http://b", "pid": 3}, "'pid' is for source process"),
        ({"source": "gateway", "limit": -1}, "negative"),
    ],
)
def test_entries_that_are_refused(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        MemorySource.model_validate(entry)


def test_defaults() -> None:
    assert PressureConfig() == PressureConfig(memory=(MemorySource(source="gateway"),))
    assert (PressureConfig().backlog.interval, PressureConfig().backlog.quota) == (5_000, 0)


async def test_paced_questions() -> None:
    clock, asked = ManualClock(), []

    async def ask() -> int:
        asked.append(clock())
        if len(asked) == 3:
            raise OSError("down")
        return len(asked)

    paced = Paced(ask, 5_000, clock)
    found = []
    for _ in range(18):
        try:
            found.append(await paced.read())
        except OSError:
            found.append(0)
        clock.advance(1)
    assert found == [1] * 5 + [2] * 5 + [0] * 5 + [4] * 3
    assert len(asked) == 4
