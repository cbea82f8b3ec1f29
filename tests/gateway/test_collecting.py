"""The garbage collector of a worker never looks at many objects at once while topics come."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.gateway import collecting

TOPICS, OBJECTS = 5_000, 60


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector as a worker has it, until the test ends."""
    before = gc.get_threshold()
    collecting.begin()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_topics_that_come_are_looked_at_few_at_a_time(collector: None) -> None:
    looked_at: list[int] = []

    def look(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            generations = range(info["generation"] + 1)
            looked_at.append(sum(len(gc.get_objects(generation=each)) for each in generations))

    gc.callbacks.append(look)
    try:
        topics = [[[number] for number in range(OBJECTS)] for _ in range(TOPICS)]
    finally:
        gc.callbacks.remove(look)
    assert len(topics) == TOPICS
    assert looked_at
    assert max(looked_at) < 25_000


def test_what_lives_from_the_start_is_never_looked_at(collector: None) -> None:
    assert gc.get_freeze_count() > 10_000
