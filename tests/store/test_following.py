"""`follow`: a listing, changes, and a listing again after a gap."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from sluicegate.pacing.backoff import Backoff
from sluicegate.store import StoreError
from sluicegate.store.metadata import CompactedError, Event, Listing, MemoryMetadata, follow


class Gapped(MemoryMetadata):
    """Loses what its watches ask for when it is told to."""

    trouble: list[StoreError]

    async def list(self, prefix: str) -> Listing:
        if self.trouble:
            raise self.trouble.pop()
        return await super().list(prefix)


def shown(found: Listing | Sequence[Event]) -> object:
    if isinstance(found, Listing):
        return {entry.key: entry.value for entry in found.entries}
    return [(event.key, None if event.entry is None else event.entry.value) for event in found]


async def test_the_listing_comes_first_then_each_change() -> None:
    store = MemoryMetadata()
    await store.put("/a/1", b"x")
    await store.put("/b/1", b"no")
    async with aclosing(follow(store, "/a/")) as found:
        assert shown(await anext(found)) == {"/a/1": b"x"}
        await store.put("/b/2", b"no")
        await store.put("/a/2", b"y")
        await store.delete("/a/1")
        assert shown(await anext(found)) == [("/a/2", b"y")]
        assert shown(await anext(found)) == [("/a/1", None)]


async def test_after_a_compaction_there_is_a_listing_again() -> None:
    store, told = MemoryMetadata(), list[StoreError]()
    async with aclosing(follow(store, "/a/", told.append, Backoff(1, 1))) as found:
        assert shown(await anext(found)) == {}
        await store.put("/a/1", b"x")
        await store.put("/a/2", b"y")
        await store.delete("/a/1")
        await store.compact()
        assert shown(await anext(found)) == {"/a/2": b"y"}
        await store.put("/a/3", b"z")
        assert shown(await anext(found)) == [("/a/3", b"z")]
    assert [type(error) for error in told] == [CompactedError]


async def test_errors_of_the_store_are_reported_and_retried() -> None:
    store, told = Gapped(), list[StoreError]()
    store.trouble = [StoreError("it is away", "wait"), StoreError("it is still away", "wait")]
    async with aclosing(follow(store, "/a/", told.append, Backoff(1, 1))) as found:
        assert shown(await anext(found)) == {}
    assert [str(error) for error in told] == ["it is still away: wait", "it is away: wait"]


async def test_it_ends_when_the_store_is_closed() -> None:
    store = MemoryMetadata()

    async def all_of(found: AsyncGenerator[Listing | Sequence[Event], None]) -> list[object]:
        return [shown(one) async for one in found]

    following = asyncio.ensure_future(all_of(follow(store, "/a/")))
    for _ in range(3):
        await asyncio.sleep(0)
    await store.close()
    assert await following == [{}]
    with pytest.raises(StoreError, match="was closed"):
        await store.list("/a/")
