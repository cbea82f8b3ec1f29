"""A broker's background writes, while its store is unreachable or slow."""

import asyncio
from functools import partial

import pytest
from tests.waiting import until_so

from sluicegate.store.metadata import MemoryMetadata
from sluicegate.store.metadata.sqlite_keys import get
from sluicegate.store.policy_store import StoreError
from sluicegate_danube.reference.stored import writes as module
from sluicegate_danube.reference.stored.writes import Writes


async def test_writes_run_in_order_and_a_failed_one_stops_no_other() -> None:
    store, writes = MemoryMetadata(), Writes()

    async def fails() -> None:
        raise StoreError("the store is away", "wait")

    for write in (partial(store.put, "/k", b"1"), fails, partial(store.put, "/k", b"2")):
        writes.add(write)
    task = asyncio.ensure_future(writes.run())
    await until_so(lambda: writes.failed == 1)
    writes.add(partial(store.put, "/end", b""))
    await until_so(lambda: store._space.tables.do(lambda connection: get(connection, "/end")))
    found = await store.get("/k")
    assert found is not None
    assert found.value == b"2"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_the_number_of_waiting_writes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    writes = Writes()
    for number in range(5):
        writes.add(partial(MemoryMetadata().delete, f"/{number}"))
    assert (len(writes._waiting), writes.failed) == (2, 3)
