"""The conformance suite: every scenario of the table at every door of a driver.

`pytest --sluicegate-driver NAME` runs it, or a class that derives from `ConformanceSuite` with a `driver`.
"""

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvloop

from sluicegate.testing.conformance.door import NOT_APPLICABLE, Door, Driver, Setup
from sluicegate.testing.conformance.playing import Played, play
from sluicegate.testing.conformance.replaying import Replay
from sluicegate.testing.conformance.scenarios import Scenario, slug
from sluicegate.testing.conformance.table import SCENARIOS

_OPEN = 6
"""Gateways and engines that are open at once."""
_AT_ONCE = 16
"""Scenarios that are played at once.

All of them together would use up the descriptors that some systems allow a process, and so many threads of
clients that a slow machine has them all wait for each other."""


class Conformance:
    """The scenarios of one driver, all of which are played when the first is asked for, many at once.

    :param directory: an empty one.
    :param doors: those to play at; all by default.
    """

    def __init__(self, driver: Driver, directory: Path, doors: Iterable[str] | None = None) -> None:
        self._driver, self._directory = driver, directory
        self._doors = tuple(driver.doors if doors is None else doors)
        self._open = asyncio.Semaphore(_OPEN)
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._played: dict[tuple[str, str], tuple[Played, Replay | None]] = {}

    def assert_alike(self, scenario: Scenario, door: str) -> None:
        """Fail if a scenario does not go at a door as the table says.

        :raises AssertionError: with what is different.
        """
        if not self._played:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._play())
        seen, replay = self._played[door, scenario.name]
        if seen.error is not None or replay is None:
            raise AssertionError(f"{door}: {scenario.name}") from seen.error
        if scenario.decisions is not None:
            decisions, expected = seen.decisions, list(scenario.decisions)
            assert decisions == expected, f"{door} decided {decisions}, expected {expected}"
        counts = {name: seen.counts.get(name) for name in scenario.counts}
        assert counts == dict(scenario.counts), f"{door} counted {counts}, expected {scenario.counts}"
        differences = list(replay.differences(seen)) if scenario.replayed else []
        assert not differences, "\n".join(["decided otherwise in manual time:", *differences])

    async def _play(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for door in self._doors:
                scenarios = list(played(self._driver, door))
                together = [each for each in scenarios if not each.alone]
                tasks.create_task(self._play_at_one(door, together, "topics"))
                for each in scenarios:
                    if each.alone:
                        tasks.create_task(self._play_at_one(door, [each], slug(each.name)))

    async def _play_at_one(self, door: str, scenarios: list[Scenario], name: str) -> None:
        """Play scenarios at one opened door."""
        topics = {each.name: self._driver.topic(slug(f"{each.name} {door}")) for each in scenarios}
        setup = self._setup(door, scenarios, topics, name)
        try:
            async with self._open, self._driver.doors[door].open(setup) as opened:
                all_played = await asyncio.gather(
                    *(self._play_one(each, opened, topics[each.name]) for each in scenarios)
                )
                replay = Replay(opened.file)
        except Exception as error:  # noqa: BLE001 - told by the tests of its scenarios
            all_played, replay = [Played(topic, error=error) for topic in topics.values()], None
        for each, seen in zip(scenarios, all_played, strict=True):
            self._played[door, each.name] = seen, replay

    async def _play_one(self, scenario: Scenario, opened: Door, topic: str) -> Played:
        async with self._at_once:
            return await play(scenario, opened, topic)

    def _setup(self, door: str, scenarios: list[Scenario], topics: dict[str, str], name: str) -> Setup:
        directory = self._directory / slug(f"{door} {name}")
        directory.mkdir()
        of_topics = [
            {"name": topics[each.name], **settings}
            for each in scenarios
            for settings in (each.policies, *each.scopes)
            if settings
        ]
        policies: dict[str, Any] = {"topics": of_topics}
        entry: dict[str, Any] = {}
        for each in scenarios:
            policies.setdefault("broker", {}).update(each.broker)
            entry.update(each.entry)
        existing = [topics[each.name] for each in scenarios if not each.creates]
        return Setup(directory, policies, entry, tuple(existing))


def applicable(driver: Driver, door: str) -> Iterator[Scenario]:
    """The scenarios that apply to a door: it has their policies, and its clients their abilities."""
    for each in SCENARIOS:
        policies = {driver.how(policy, door) for policy in each.shows}
        if NOT_APPLICABLE not in policies and each.needs <= driver.doors[door].abilities:
            yield each


def played(driver: Driver, door: str) -> Iterator[Scenario]:
    """The scenarios that apply to a door and can be played there."""
    return (each for each in applicable(driver, door) if each.name not in driver.doors[door].unplayed)


class ConformanceSuite:
    """Tests of one driver; a class that derives from this gives them its `driver`."""

    driver: ClassVar[Driver]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give each test its doors and scenarios."""
        driver = self.driver
        if "scenario" in metafunc.fixturenames:
            metafunc.parametrize(
                ("door", "scenario"),
                [
                    pytest.param(door, each, id=f"{door}-{each.name}")
                    for door in driver.doors
                    for each in played(driver, door)
                ],
            )
        elif "door" in metafunc.fixturenames:
            metafunc.parametrize("door", driver.doors)

    @pytest.fixture(scope="class")
    @classmethod
    def conformance(
        cls, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Conformance:
        """What was played, at the doors that are asked for."""
        asked = [each.callspec.params for each in request.session.items if getattr(each, "cls", None) is cls]  # type: ignore[attr-defined]
        doors = dict.fromkeys(params["door"] for params in asked if "scenario" in params)
        return Conformance(cls.driver, tmp_path_factory.mktemp("conformance"), doors)

    def test_a_scenario_goes_as_at_every_door(
        self, scenario: Scenario, door: str, conformance: Conformance
    ) -> None:
        """Its steps, decisions and counts are those of the table, and replayed they are the same."""
        conformance.assert_alike(scenario, door)

    def test_each_policy_of_a_door_is_shown(self, door: str) -> None:
        """A door says of no policy that it applies without a scenario that shows it there."""
        shown = {policy for each in applicable(self.driver, door) for policy in each.shows}
        declared = {
            name for name in self.driver.capabilities if self.driver.how(name, door) != NOT_APPLICABLE
        }
        missing = sorted(declared - shown)
        assert not missing, f"no scenario that applies to {door} shows {', '.join(missing)}"
