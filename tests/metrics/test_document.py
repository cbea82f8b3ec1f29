"""docs/operations.md names every metric, and none that does not exist."""

import re
from pathlib import Path

from prometheus_client.metrics_core import Metric

from sluicegate.metrics.exposition import GatewayCollector

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
STATUS = {"workers": {}, "reload_successful": True, "reloads_failed": 0, "version": 1}


def written(metric: Metric) -> str:
    """The name as it is exposed."""
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def test_every_metric_is_in_the_table_and_the_table_has_no_others() -> None:
    metrics = {written(metric) for metric in GatewayCollector(lambda: (), lambda: STATUS).collect()}
    tables = "\n".join(line for line in DOCUMENT.splitlines() if line.startswith("|"))
    own = set(re.findall(r"`(sluicegate_\w+)`", tables))
    assert own == {name for name in metrics if name.startswith("sluicegate_")}
    required = metrics - own
    assert len(required) == 6
    assert all(f"`{name}`" in tables for name in required)


def test_every_metric_says_what_it_is() -> None:
    assert all(metric.documentation for metric in GatewayCollector(lambda: (), lambda: STATUS).collect())
