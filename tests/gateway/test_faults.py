"""One gateway enforces, whichever process is killed or stopped at whichever step of its life.

The law: in every window no more is admitted than the rate allows, one full bucket of each worker that has
begun to accept clients, and what a worker admits beside the next one before it sees that its term has ended.
In the end one worker serves, with one bucket and one set of places.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway.fault_scene import BURST, PLACES, RATE, Scene, excess, places_taken
from tests.gateway.running import echoing
from tests.waiting import until

_STEPS = {
    ("start", "old supervisor"): ["has claimed", "can serve", "serves"],
    ("start", "old worker"): ["starts", "listens", "accepts"],
    ("reload", "old supervisor"): ["has read policies", "has sent policies"],
    ("reload", "old worker"): ["has received policies", "has replaced policies"],
    ("take-over", "old supervisor"): ["is asked", "has offered", "leaves", "has left"],
    ("take-over", "old worker"): ["retires", "drains", "has drained"],
    ("take-over", "new supervisor"): ["has claimed", "can serve", "has retired the old", "serves"],
    ("take-over", "new worker"): ["starts", "listens", "accepts"],
    ("drain", "old supervisor"): ["leaves", "has left"],
    ("drain", "old worker"): ["retires", "drains", "has drained"],
}
_EVERYWHERE = {
    ("start", "old worker", "listens", "STOP"),
    ("reload", "old supervisor", "has read policies", "KILL"),
    ("reload", "old worker", "has received policies", "STOP"),
    ("take-over", "old supervisor", "has offered", "KILL"),
    ("take-over", "new supervisor", "can serve", "KILL"),
    ("take-over", "new supervisor", "has retired the old", "KILL"),
    ("take-over", "new supervisor", "serves", "STOP"),
    ("take-over", "new worker", "accepts", "KILL"),
    ("drain", "old supervisor", "has left", "KILL"),
}
"""The others are only longer: they happen beside one of these."""


def _schedules() -> Iterator[object]:
    for (life, process), steps in _STEPS.items():
        for step in steps:
            for fault in ("KILL", "STOP"):
                schedule = (life, process, step, fault)
                marks = () if schedule in _EVERYWHERE else (pytest.mark.longer,)
                yield pytest.param(*schedule, id=", ".join(schedule), marks=marks)


def test_the_checker_sees_two_workers() -> None:
    steady = [(at / RATE, at / RATE + 0.001) for at in range(100)]
    burst = [(1.0, 1.001)] * BURST
    assert excess(steady) < 2
    assert excess([*steady, *burst]) > BURST
    assert excess(steady + steady) > BURST
    late = [(sent_s - 1, answered_s + 1) for sent_s, answered_s in steady + steady]
    assert excess(late) < excess(steady + steady), "they may have been decided at other times"


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    """The port of a broker that echoes."""
    with echoing() as port:
        yield port


def _live(scene: Scene, life: str) -> None:
    """Begin the part of a gateway's life in which the fault happens."""
    scene.begin("old")
    if life == "start":
        return
    old = scene.ready("old")
    if life == "reload":
        scene.write("200")
    elif life == "take-over":
        scene.begin("new", "--take-over")
    else:
        old.process.terminate()


@pytest.mark.parametrize(("life", "process", "step", "fault"), list(_schedules()))
def test_one_gateway_enforces(
    upstream: int, tmp_path: Path, life: str, process: str, step: str, fault: str
) -> None:
    scene = Scene(tmp_path, upstream, process, step, fault)
    try:
        with scene.load.running():
            _live(scene, life)
            scene.struck()
            scene.load.go_on()
            scene.resume()
            gateway = scene.settle()
            since_s = scene.load.go_on()
            assert scene.load.above(since_s) <= BURST
            assert scene.load.above() <= scene.bound()
        assert places_taken(gateway.port) == PLACES
        if life == "reload":
            until(lambda: not gateway.refused(150))
    finally:
        scene.stop()
