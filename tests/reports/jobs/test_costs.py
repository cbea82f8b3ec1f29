"""What a door costs, from the latencies of phases in which nobody is to be held."""

from typing import Any

from tests.reports.frames import at, trial

from sluicegate_reports.jobs.costs import costs
from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.model.results import Cost


def latency(phase: str, p50_ms: float, p99_ms: float, messages: int) -> dict[str, Any]:
    place = {"system": "kafka", "door": "proxy", "topic": "orders", "phase": phase}
    return {**place, "messages": messages, "quantiles": [p50_ms, p50_ms, p99_ms, p99_ms]}


def test_phases_in_which_clients_are_held_cost_nothing_of_the_door() -> None:
    trials = [
        trial(phase="calm", saturated=False),
        trial(phase="loaded"),
        trial("max_message_size", 100, phase="sizes", end=at(5)),
        trial("max_message_size", 100, phase="more", end=at(5)),
    ]
    rows = [
        latency("calm", 2.0, 5.0, 80),
        latency("loaded", 900.0, 2_000.0, 100),
        latency("sizes", 1.0, 3.0, 10),
        latency("more", 3.0, 5.0, 30),
        latency("of no trial", 9.0, 9.0, 9),
    ]
    assert costs(trials, Measures(latencies=rows)) == {
        ("max_publish_rate", "kafka", "proxy"): Cost(2.0, 5.0, 8.0),
        ("max_message_size", "kafka", "proxy"): Cost(2.0, 4.0, 4.0),
    }
