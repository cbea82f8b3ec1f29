"""Plans of clients, made from a scenario."""

import math
from pathlib import Path

from sluicegate_reports.runner.driver import read_plan, write_plan
from sluicegate_reports.runner.pacing import Stretch
from sluicegate_reports.runner.plan import ArmPlan, brief, make_plan
from sluicegate_reports.runner.scenario import Scenario


def plan_of(**more: object) -> ArmPlan:
    content: dict[str, object] = {
        "name": "small",
        "topics": [{"name": "orders"}],
        "producers": [{"name": "source", "topic": "orders", "rate": 10, "count": 2}],
        "phases": [{"name": "one", "duration": "2s"}, {"name": "two", "duration": "3s"}],
        **more,
    }
    return make_plan(
        Scenario.model_validate(content),
        "kafka",
        "proxy-1",
        run="run",
        system="kafka",
        door="proxy",
        client="kafka",
        addresses=("127.0.0.1:1",),
        options={},
        directory="observations",
    )


def test_equal_clients_are_numbered_and_phases_follow_each_other() -> None:
    plan = plan_of()
    assert [each.name for each in plan.producers] == ["source-1", "source-2"]
    assert plan.producers[0].topic == "default.orders--proxy-1"
    assert [(phase.start_s, phase.end_s) for phase in plan.phases] == [(0, 2), (2, 5)]
    assert plan.producers[0].stretches == (Stretch(0, 0, 2, 10, 10), Stretch(1, 2, 5, 10, 10))


def test_phases_change_rates_silence_ramp_and_saturate() -> None:
    def stretches(**rate: object) -> tuple[Stretch, ...]:
        rates = [{"producer": "source", **rate}]
        phases = [{"name": "one", "duration": "2s"}, {"name": "two", "duration": "3s", "rates": rates}]
        return plan_of(phases=phases).producers[0].stretches

    assert stretches(rate=40)[1] == Stretch(1, 2, 5, 40, 40)
    assert stretches(rate=40, ramp=True)[1] == Stretch(1, 2, 5, 40, 10)
    assert len(stretches(silent=True)) == 1
    assert stretches(rate=0)[1].rate == math.inf
    # There is no line from a finite rate to one without end.
    assert stretches(rate=0, ramp=True)[1].from_rate == math.inf


def test_consumers_with_separate_subscriptions_get_numbered_ones() -> None:
    consumer = {"name": "reader", "topic": "orders", "subscription": "group", "count": 2}
    shared = plan_of(consumers=[consumer]).consumers
    apart = plan_of(consumers=[{**consumer, "each": True}]).consumers
    assert [each.subscription for each in shared] == ["group", "group"]
    assert [each.subscription for each in apart] == ["group-1", "group-2"]
    assert shared[0].stop_s == math.inf


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = plan_of(consumers=[{"name": "reader", "topic": "orders"}])
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan


def test_what_is_played_for_its_cost_alone_is_the_begin_of_the_first_phase() -> None:
    scenario = Scenario.model_validate(
        {
            "name": "small",
            "topics": [{"name": "orders"}],
            "producers": [
                {"name": "source", "topic": "orders"},
                {"name": "late", "topic": "orders", "start": "4s"},
            ],
            "consumers": [{"name": "later", "topic": "orders", "start": "4s"}],
            "phases": [{"name": "one", "duration": "9s"}, {"name": "two", "duration": "2s"}],
            "drain": "5s",
        }
    )
    short = brief(scenario)
    assert [(phase.name, phase.duration) for phase in short.phases] == [("one", 3_000)]
    assert ([each.name for each in short.producers], short.consumers) == (["source"], ())
    assert short.drain == 1_000
