"""A comparison on a machine without the extra of one system."""

import sys
from typing import Any

import pytest
from tests.reports.runner.conftest import Record

_TEXT = """\
name: short
topics: [{ name: orders }]
producers: [{ name: shop, topic: orders, rate: 20/s, size: 64 }]
phases: [{ name: only, duration: 1s }]
drain: 1s
policies: { topics: [{ name: orders, max_publish_rate: 100/s }] }
"""


async def test_a_system_without_its_extra_is_reported_with_the_remedy(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hpack", None)
    recorded: Any = await record(_TEXT, ("danube",), ("proxy",))
    missing = {arm.system: arm.missing for arm in recorded.run.facts.arms}
    assert missing == {"danube": "hpack is not installed; do: pip install 'sluicegate[danube]'"}
