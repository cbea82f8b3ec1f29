"""The conformance suite finds what a door does otherwise, and what replays otherwise."""

from dataclasses import replace

import pytest
from tests.conformance.danube_doors import DRIVER

from sluicegate.testing.conformance import Driver, Scenario
from sluicegate.testing.conformance.playing import Played
from sluicegate.testing.conformance.replaying import Replay
from sluicegate.testing.conformance.suite import Conformance
from sluicegate.testing.conformance.table import SCENARIOS
from sluicegate.testing.sink import Recorded

DOOR = "grpc client, aio"


def scenario(name: str) -> Scenario:
    return next(each for each in SCENARIOS if each.name == name)


@pytest.fixture(scope="module")
def conformance(tmp_path_factory: pytest.TempPathFactory) -> Conformance:
    capabilities = {"max_producers_per_topic": "native", "max_publish_rate": "emulated"}
    driver = Driver("danube", capabilities, {DOOR: DRIVER.doors[DOOR]}, DRIVER.topic)
    return Conformance(driver, tmp_path_factory.mktemp("conformance"))


def played(conformance: Conformance, name: str) -> tuple[Played, Replay]:
    conformance.assert_alike(scenario(name), DOOR)
    (file,) = conformance._directory.glob("*-topics/gateway.yaml")
    return conformance._played[DOOR, name][0], Replay(file)


def recorded(played: Played) -> list[Recorded]:
    return [each for each in played.events if isinstance(each, Recorded)]


def test_what_a_door_decided_otherwise_is_told(conformance: Conformance) -> None:
    found, replay = played(conformance, "producers")
    events = recorded(found)
    refused = next(number for number, each in enumerate(events) if each.decision is not None)
    events[refused] = replace(events[refused], decision=None)
    (difference,) = replay.differences(replace(found, events=[*events]))
    assert "['allow'], replayed: ['reject by max_producers_per_topic']" in difference


def test_what_passed_too_soon_is_told(conformance: Conformance) -> None:
    found, replay = played(conformance, "max_publish_rate, waiting")
    events = recorded(found)
    soon = [replace(each, now_ns=events[0].now_ns, decision=None) for each in events]
    differences = list(replay.differences(replace(found, events=[*soon])))
    assert any("replayed: ['delay by max_publish_rate']" in each for each in differences)
    assert any(each.startswith("max_publish_rate is 10: ") for each in differences)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"decisions": [("reject", "max_message_size")]}, "decided"),
        ({"counts": {"producers": 3}}, "counted"),
    ],
)
def test_what_the_table_says_otherwise_is_told(
    conformance: Conformance, changed: dict[str, object], told: str
) -> None:
    with pytest.raises(AssertionError, match=f"^{DOOR} {told} "):
        conformance.assert_alike(replace(scenario("producers"), **changed), DOOR)  # type: ignore[arg-type]
