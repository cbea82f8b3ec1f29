"""Which policies an arm tried."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.reports.runner.test_plan import plan_of

from sluicegate.model import EffectivePolicies, Level, Provenance, Source
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.runner.doors import Judged
from sluicegate_reports.runner.plan import ArmPlan
from sluicegate_reports.runner.trials import Played, trials, utc

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PLAYED = Played(BEGAN, BEGAN + timedelta(seconds=1))


def tried(
    plan: ArmPlan, played: Played = PLAYED, judged: Judged | None = None, **values: float
) -> list[Trial]:
    def resolve(topic: str) -> EffectivePolicies:
        provenance = {name: Provenance(Level.TOPIC, Source.FILE, "") for name in values}
        return EffectivePolicies(topic, 1, values, provenance)

    return trials(plan, resolve, dict.fromkeys(values, judged) if judged else {}, played)


def test_a_rate_is_tried_in_each_phase_and_saturated_where_more_is_asked_for() -> None:
    rates = [{"producer": "source", "rate": 100}]
    phases = [{"name": "one", "duration": "2s"}, {"name": "two", "duration": "3s", "rates": rates}]
    made = tried(plan_of(phases=phases), max_publish_rate=50)
    assert [(each.phase, each.saturated) for each in made] == [("one", False), ("two", True)]
    assert (made[1].start, made[1].end) == (BEGAN + timedelta(seconds=3), BEGAN + timedelta(seconds=6))
    assert made[0].topic == "default.orders--proxy-1"


def test_bytes_saturate_by_size() -> None:
    assert [each.saturated for each in tried(plan_of(), max_publish_rate_bytes=10_240)] == [True, True]
    assert [each.saturated for each in tried(plan_of(), max_publish_rate_bytes=10_241)] == [False, False]


def test_messages_held_by_a_publish_rate_do_not_saturate_the_dispatch() -> None:
    plan = plan_of(consumers=[{"name": "reader", "topic": "orders"}])
    made = tried(plan, max_dispatch_rate=10, max_publish_rate=9)
    assert {each.policy: each.saturated for each in made} == {
        "max_dispatch_rate": False,
        "max_publish_rate": True,
    }


def test_the_stricter_of_a_message_and_a_byte_rate_is_saturated() -> None:
    # Twenty messages of 512 bytes are asked for each second.
    for messages, volume, saturated in ((5, 6 * 512, (True, False)), (6, 5 * 512, (False, True))):
        made = tried(plan_of(), max_publish_rate=messages, max_publish_rate_bytes=volume)
        assert {(each.policy, each.saturated) for each in made} == {
            ("max_publish_rate", saturated[0]),
            ("max_publish_rate_bytes", saturated[1]),
        }


def test_a_count_is_tried_where_clients_attach() -> None:
    producers = [{"name": "first", "topic": "orders"}, {"name": "late", "topic": "orders", "start": "3s"}]
    made = tried(plan_of(producers=producers), max_producers_per_topic=1)
    assert [each.phase for each in made] == ["one", "two"]
    assert made[0].start == BEGAN  # they attach before the first phase
    assert [each.phase for each in tried(plan_of(), max_producers_per_topic=1)] == ["one"]


def test_each_subscription_is_tried() -> None:
    consumers = [{"name": "reader", "topic": "orders", "count": 2, "each": True, "subscription": "group"}]
    made = tried(plan_of(consumers=consumers), max_subscription_dispatch_rate=5)
    assert {each.subscription for each in made} == {"group-1", "group-2"}


def test_a_requested_delay_is_tried_by_the_clients_that_request_it() -> None:
    assert tried(plan_of(), max_delivery_delay=5) == []
    asking = [{"name": "source", "topic": "orders", "delay": "1s"}]
    assert len(tried(plan_of(producers=asking), max_delivery_delay=5)) == 2


@pytest.mark.parametrize(
    ("played", "judged", "values", "field", "text"),
    [
        (Played(BEGAN, None, "no broker"), None, {}, "missing", "no broker"),
        (PLAYED, Judged(not_applicable="none here"), {}, "not_applicable", "none here"),
        (PLAYED, Judged(nearest="almost"), {}, "nearest", "almost"),
        (PLAYED, None, {"mode.max_publish_rate": "observe"}, "missing", "not enforced for all"),
    ],
)
def test_a_policy_that_was_not_tried_says_why(
    played: Played, judged: Judged | None, values: dict[str, float], field: str, text: str
) -> None:
    for trial in tried(plan_of(), played, judged, max_publish_rate=5, **values):
        assert text in getattr(trial, field)


def test_a_rate_over_all_topics_is_reported_as_missing() -> None:
    consumers = [{"name": "reader", "topic": "orders"}]
    made = tried(plan_of(consumers=consumers), connection_rate_limit=5)
    assert all("applies to all topics" in each.missing for each in made)


def test_times_keep_their_microseconds() -> None:
    assert utc(1_767_225_600_123_456) == datetime(2026, 1, 1, 0, 0, 0, 123_456, UTC)
