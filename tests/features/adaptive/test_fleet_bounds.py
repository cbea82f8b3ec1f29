"""More topics than a worker may tell of: the busiest and all throttled ones are the fleet's."""

from tests.features.adaptive.fleet_lab import FleetLab, Worker
from tests.features.adaptive.test_controller import MEMORY

from sluicegate.engine.bucket import DualBucket
from sluicegate.engine.leased_bucket import LeasedBucket
from sluicegate.features.adaptive.fleet_json import MOST_BYTES
from sluicegate.features.adaptive.standing import FleetStanding

TOPICS = 600
LONG = "x" * 1_000


def crowded() -> FleetLab:
    """Of six hundred topics with long names, not half can be told; the last ones are the busiest."""
    fleet = FleetLab(2, settings=MEMORY)
    fleet.open(*(name(number) for number in range(TOPICS)))
    for _ in range(3):
        pass_traffic(fleet)
    return fleet


def name(number: int) -> str:
    return f"{LONG}{number}"


def pass_traffic(fleet: FleetLab) -> None:
    fleet.clock.advance(1)
    for worker in fleet.workers:
        for number, state in enumerate(worker.context.states.values()):
            state.batched_messages += 10 + number
            state.batched_bytes += 1000 + 100 * number
    fleet.turn()


def buckets(worker: Worker) -> list[type[DualBucket]]:
    return [type(topic.limiter.queue.bucket) for topic in worker.controller.topics]


def test_what_is_told_and_found_is_bounded_and_the_busiest_come_first() -> None:
    fleet = crowded()
    assert all(len(text) <= MOST_BYTES for text, _ in fleet.told.values())
    assert len(fleet.found) <= MOST_BYTES
    standing = FleetStanding.read(fleet.found)
    assert standing.is_cut
    assert 200 < len(standing.topics) < 300
    assert standing.topics.keys() == {name(number) for number in range(TOPICS)[-len(standing.topics) :]}


def test_what_does_not_fit_is_each_workers_own() -> None:
    fleet = crowded()
    told = len(FleetStanding.read(fleet.found).topics)
    fleet.workers[0].memory = 0.85
    for _ in range(5):
        pass_traffic(fleet)
    for worker in fleet.workers:
        assert all(topic.limiter.switch.on for topic in worker.controller.topics)
        assert buckets(worker) == [DualBucket] * (TOPICS - told) + [LeasedBucket] * told
        own, fleets = worker.topic(name(0)), worker.topic(name(TOPICS - 1))
        assert own.natural.messages_per_s == 10  # of this worker
        assert fleets.natural.messages_per_s == 2 * (10 + TOPICS - 1)
        assert (own.messages_per_s, fleets.messages_per_s) == (1, 121)


def test_all_that_are_throttled_stay_the_fleets_though_others_become_busier() -> None:
    fleet = crowded()
    before = FleetStanding.read(fleet.found).topics.keys()
    for topic in before:
        fleet.workers[0].press(0.95, topic)
    pass_traffic(fleet)
    for worker in fleet.workers:
        for number in range(50):
            worker.state(name(number)).batched_messages += 100_000
    pass_traffic(fleet)
    after = FleetStanding.read(fleet.found).topics
    assert after.keys() == before
    assert all(standing.active for standing in after.values())


def test_once_all_fit_again_nothing_stays_a_workers_own() -> None:
    fleet = crowded()
    fleet.workers[0].memory = 0.85
    pass_traffic(fleet)
    for worker in fleet.workers:
        for number in range(500):
            worker.context.states.pop(name(number))
    for _ in range(300):
        pass_traffic(fleet)
    assert not FleetStanding.read(fleet.found).is_cut
    for worker in fleet.workers:
        assert buckets(worker) == [LeasedBucket] * 100
        assert all(topic.limiter.switch.on for topic in worker.controller.topics)
