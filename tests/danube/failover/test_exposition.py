"""The controller's metrics."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sluicegate_danube.failover.exposition import FailoverCollector
from sluicegate_danube.failover.figures import Figures


def page(figures: Figures) -> list[str]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FailoverCollector(figures, lambda: 5_000_000_000))
    lines = generate_latest(registry).decode().splitlines()
    return [line.removeprefix("sluicegate_danube_failover_") for line in lines if line[0] != "#"]


def test_figures_become_metrics_with_units() -> None:
    figures = Figures(
        leading=True,
        failovers=1,
        topics_released=3,
        owners_changed=4,
        last_failover_s=1.5,
        last_failover_took_s=0.25,
        store_answered_ns=2_000_000_000,
        brokers={"active": 2, "dead": 1},
        topics={"owned": 7},
        incomplete={"policy": 1},
    )
    assert page(figures) == [
        "failovers_total 1.0",
        "topics_released_total 3.0",
        "owners_changed_total 4.0",
        "conflicts_total 0.0",
        "store_errors_total 0.0",
        "foreign_writes_total 0.0",
        "registered_again_total 0.0",
        "leader 1.0",
        "last_failover_timestamp_seconds 1.5",
        "last_failover_duration_seconds 0.25",
        "strange_keys 0.0",
        'brokers{state="active"} 2.0',
        'brokers{state="dead"} 1.0',
        'topics{state="owned"} 7.0',
        'incomplete_topics{entry="policy"} 1.0',
        "store_age_seconds 3.0",
    ]


@pytest.mark.parametrize("name", ["store_age_seconds", 'brokers{state="active"}'])
def test_unknown_figures_are_omitted(name: str) -> None:
    assert [line for line in page(Figures()) if line.startswith(name)] == []
