"""More topics than a worker may tell of: the busiest and all throttled ones are the fleet's."""

import pytest
from tests.features.adaptive.fleet_lab import FleetLab, Worker
from tests.features.adaptive.test_controller import MEMORY

from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.leased_bucket import LeasedBucket
from sluicegate.features.adaptive import fleet_json
from sluicegate.features.adaptive.standing import FleetStanding

TOPICS = 12
FIT = 5
"""How many of them can be told by the leader, by the bound that these tests set."""
MOST_BYTES = 1_024


@pytest.fixture(autouse=True)
def _bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_json, "MOST_BYTES", MOST_BYTES)


def crowded() -> FleetLab:
    """Two workers with topics that are too many to tell; the last ones are the busiest."""
    fleet = FleetLab(2, settings=MEMORY)
    fleet.open(*(f"t{number}" for number in range(TOPICS)))
    for _ in range(3):
        pass_traffic(fleet)
    return fleet


def pass_traffic(fleet: FleetLab) -> None:
    fleet.clock.advance(1)
    for worker in fleet.workers:
        for name, state in worker.context.states.items():
            state.batched_messages += 10 + int(name[1:])
            state.batched_bytes += 1000 + 100 * int(name[1:])
    fleet.turn()


def buckets(worker: Worker) -> list[type[DualBucket]]:
    return [type(topic.limiter.queue.bucket) for topic in worker.controller.topics]


def test_what_is_told_and_found_is_bounded_and_the_busiest_come_first() -> None:
    fleet = crowded()
    assert all(len(text) <= MOST_BYTES for text, _ in fleet.reports.values())
    assert len(fleet.findings) <= MOST_BYTES
    standing = FleetStanding.read(fleet.findings)
    assert standing.is_cut
    assert standing.topics.keys() == {f"t{number}" for number in range(TOPICS - FIT, TOPICS)}


def test_what_does_not_fit_is_each_workers_own() -> None:
    fleet = crowded()
    fleet.workers[0].memory = 0.85
    for _ in range(5):
        pass_traffic(fleet)
    for worker in fleet.workers:
        assert all(topic.limiter.switch.on for topic in worker.controller.topics)
        assert buckets(worker) == [DualBucket] * (TOPICS - FIT) + [LeasedBucket] * FIT
        own, fleets = worker.topic("t0"), worker.topic("t11")
        assert (own.natural.messages_per_s, own.messages_per_s) == (10, 1)  # of this worker
        assert (fleets.natural.messages_per_s, fleets.messages_per_s) == (42, 4)
    fleet.workers[0].memory = 0.0
    pass_traffic(fleet)
    assert not any(topic.limiter.switch.on for worker in fleet.workers for topic in worker.controller.topics)


def test_all_that_are_throttled_stay_the_fleets_though_others_become_busier() -> None:
    fleet = crowded()
    before = FleetStanding.read(fleet.findings).topics.keys()
    for topic in before:
        fleet.workers[0].press(0.95, topic)
    pass_traffic(fleet)
    for worker in fleet.workers:
        worker.state("t0").batched_messages += 100_000
    pass_traffic(fleet)
    after = FleetStanding.read(fleet.findings).topics
    assert after.keys() == before
    assert all(standing.active for standing in after.values())


def test_once_all_fit_again_nothing_stays_a_workers_own() -> None:
    fleet = crowded()
    fleet.workers[0].memory = 0.85
    pass_traffic(fleet)
    fleet.workers[0].memory = 0.0
    for worker in fleet.workers:
        for number in range(1, TOPICS):
            del worker.context.states[f"t{number}"]
    while FleetStanding.read(fleet.findings).is_cut:  # until the others have come to rest
        pass_traffic(fleet)
    fleet.workers[0].memory = 0.85
    for _ in range(3):
        pass_traffic(fleet)
    for worker in fleet.workers:
        assert buckets(worker) == [LeasedBucket]
        assert worker.topic("t0").natural.messages_per_s == 20
        assert worker.topic("t0").limiter.switch.on
