"""Ten schedules by chance on a real etcd: serving brokers are killed, with faults between any two steps."""

import asyncio
from collections.abc import Iterator

import pytest
from benchmarks.harness.etcd import Etcd, why_no_etcd
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.danube.failover.real.support.turned import EtcdWorld
from tests.danube.failover.schedules import BROKERS, Round, Schedule, rounds
from tests.danube.failover.world import entries
from tests.real.needs import need
from tests.waiting import LONG_S

from sluicegate.store.metadata.etcd.address import etcd_address
from sluicegate.store.metadata.etcd.etcd_store import EtcdMetadata

SCHEDULES = 10


@pytest.fixture(scope="module")
def own_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One that holds nothing else: Danube's keys have no prefix."""
    need(why_no_etcd())
    with Etcd(tmp_path_factory.mktemp("etcd")) as member:
        yield member


@pytest.mark.seed("S3-003", "S3-006", "S3-017")
@settings(
    max_examples=SCHEDULES,
    phases=[Phase.generate],
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    alive=st.lists(st.sampled_from(BROKERS), min_size=2, max_size=4, unique=True),
    play=st.lists(rounds, min_size=2, max_size=5),
)
def test_durable_entries_are_unchanged_until_the_new_owner_serves(
    own_etcd: Etcd, alive: list[int], play: list[Round]
) -> None:
    address = etcd_address(f"{own_etcd.url}?timeout={LONG_S}s")
    assert address is not None

    async def scheduled() -> None:
        world = EtcdWorld(address, lambda: EtcdMetadata(address))
        schedule = Schedule(world)
        try:
            await schedule.begin(alive)
            await schedule.take_turn(0, {}, {})
            await world.until_served()
            before = entries(await world.durable())
            await schedule.happen(("leave", alive[0]), 0)
            await schedule.play(play)
            await schedule.end()
            await world.until_served()
            assert await world.kept(before)
        finally:
            await world.close()

    asyncio.run(scheduled())
