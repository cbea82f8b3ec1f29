"""docs/operations.md names every metric, and none that does not exist."""

import re
from pathlib import Path

from prometheus_client.metrics_core import Metric
from tests.metrics.status import STATUS

from sluicegate.metrics.exposition import GatewayCollector
from sluicegate.runtime import slow_calls

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()


def written(metric: Metric) -> str:
    """The name as it is exposed."""
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def test_every_metric_is_in_the_table_and_the_table_has_no_others() -> None:
    metrics = {written(metric) for metric in GatewayCollector(lambda: (), lambda: STATUS).collect()}
    metrics |= {f"{slow_calls.COUNTED}_total", slow_calls.LONGEST}
    tables = "\n".join(line for line in DOCUMENT.splitlines() if line.startswith("|"))
    own = set(re.findall(r"`((?:sluicegate|process)_\w+)`", tables))
    assert own == {name for name in metrics if name.startswith(("sluicegate_", "process_"))}
    required = metrics - own
    assert len(required) == 6
    assert all(f"`{name}`" in tables for name in required)


def test_every_metric_says_what_it_is() -> None:
    assert all(metric.documentation for metric in GatewayCollector(lambda: (), lambda: STATUS).collect())


_UNITS = ("_bytes", "_seconds", "_ratio", "_percent", "_timestamp")


def test_what_is_measured_has_its_unit_in_its_name() -> None:
    """What counts things has none; the names that the requirements ask for stay as they are."""
    for metric in GatewayCollector(lambda: (), lambda: STATUS).collect():
        if not metric.name.startswith(("sluicegate_", "process_")):
            continue
        if metric.type == "histogram" or re.search(
            r"^(bytes|resident|how (late|long))", metric.documentation.lower()
        ):
            assert any(unit in metric.name for unit in _UNITS), metric.name
