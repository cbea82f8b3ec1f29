"""The garbage collector of a worker scans few objects at a time while topics are added."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.processes import collecting

TOPICS, OBJECTS = 5_000, 60


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector as a worker has it, until the test ends."""
    before = gc.get_threshold()
    collecting.begin()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_each_collection_scans_few_of_the_new_topics(collector: None) -> None:
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


def test_objects_alive_at_the_start_are_never_scanned(collector: None) -> None:
    assert gc.get_freeze_count() > 10_000
