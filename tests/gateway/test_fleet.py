"""A fleet of real processes keeps its limits, whatever of it and of its store is killed or stopped."""

from pathlib import Path

import pytest
from benchmarks import fleet_law, fleet_places
from benchmarks.harness.redis import why_no_redis
from tests.real.needs import need

PATIENT = {"lease_ms": 2000, "timeout_ms": 500, "stop_s": 2.5}
"""On a busy machine one worker alone could miss its store, and spend its share beside the others' leases."""


@pytest.fixture(autouse=True)
def _redis() -> None:
    need(why_no_redis())


def test_no_window_of_a_fleet_admits_more_than_rate_and_burst(tmp_path: Path) -> None:
    scene = fleet_law.Scene(rate=300, seconds=4, clients=4, **PATIENT)  # type: ignore[arg-type]
    seen = fleet_law.played(scene, tmp_path, print)
    assert len(seen.events) == 5  # and messages passed again at both gateways after each
    judged = seen.judged()
    assert judged["surely admitted"] <= 0, fleet_law.report(seen)
    assert judged["by decision logs"] <= 0, fleet_law.report(seen)
    assert seen.decided.amount.sum() > scene.rate


def test_a_place_is_never_taken_twice_while_gateways_are_killed(tmp_path: Path) -> None:
    """All places are taken again after each kill; how soon, the benchmark tells."""
    # A worker that misses its store for longer than a place's lease would admit its share.
    scene = fleet_places.Scene(
        producers=20, places=4, place_lease_s=8, lease_ms=4_000, timeout_ms=1_000, settle_s=0.5
    )
    assert fleet_places.played(scene, tmp_path, print).most == scene.places
