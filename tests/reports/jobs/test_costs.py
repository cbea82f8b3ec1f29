"""What a door costs, from the latencies of phases in which nobody is to be held."""

from typing import Any

from tests.reports.frames import at, trial

from sluicegate_reports.jobs.costs import costs, priced
from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.model.results import Baseline, Cell, Cost, Phase, RunFacts
from sluicegate_reports.model.runs import Run
from sluicegate_reports.model.verdict import Verdict


def latency(
    phase: str, p50_ms: float, p99_ms: float, messages: int, door: str = "proxy", topic: str = "orders"
) -> dict[str, Any]:
    place = {"system": "kafka", "door": door, "topic": topic, "phase": phase}
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
    assert costs(Run(RunFacts("r", "", ""), tuple(trials)), Measures(latencies=rows)) == {
        ("max_publish_rate", "kafka", "proxy"): Cost(2.0, 5.0, 8.0),
        ("max_message_size", "kafka", "proxy"): Cost(2.0, 4.0, 4.0),
    }


def test_a_topic_without_policies_costs_every_cell_of_its_system_the_yardstick() -> None:
    """Cells without a cost of their own have none; the phase's length counts, not that of attaching."""
    phase = Phase("calm (kafka proxy)", at(1), at(5))
    baseline = Baseline("kafka", "orders-direct", ("max_publish_rate",), "calm", at(20), at(22))
    facts = RunFacts("r", "", "", phases=(phase,), baselines=(baseline,))
    run = Run(facts, (trial(phase="calm", end=at(5), saturated=False),))
    rows = [
        latency("calm", 2.0, 5.0, 80),
        latency("calm", 1.0, 2.0, 60, "direct", "orders-direct"),
        latency("calm", 7.0, 7.0, 60, "direct", "another"),
    ]
    by_cell = costs(run, Measures(latencies=rows))
    place = ("max_publish_rate", "kafka", "proxy")
    cell = priced(Cell(*place, Verdict.EXACT), by_cell)
    assert (cell.cost, cell.direct) == (Cost(2.0, 5.0, 20.0), Cost(1.0, 2.0, 30.0))
    untold = priced(Cell("max_publish_rate", "kafka", "native", Verdict.MISSING), by_cell)
    assert (untold.cost, untold.direct) == (None, None)
