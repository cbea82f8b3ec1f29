"""What every metadata store promises: one suite over all of them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from tests.waiting import LONG_S

from sluicegate.store import StoreError
from sluicegate.store.metadata import (
    TRANSACTION_LIMIT,
    Delete,
    Event,
    LeaseExpiredError,
    MemoryMetadata,
    MetadataStore,
    Put,
    Unchanged,
    open_metadata,
)


@pytest.fixture(params=["memory", "sqlite", "etcd"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MetadataStore]:
    made: MetadataStore
    if request.param == "memory":
        made = MemoryMetadata()
    else:
        url = request.getfixturevalue("etcd_url") if request.param == "etcd" else f"sqlite:///{tmp_path}/m.db"
        opened = open_metadata(url)
        assert opened is not None
        made = opened[0]
    yield made
    await made.close()


@pytest.fixture
def at(store: MetadataStore, request: pytest.FixtureRequest) -> str:
    """A prefix that no other test uses."""
    return f"/{request.node.name}/{id(store)}/"


async def taken(watch: AsyncIterator[Sequence[Event]], count: int) -> list[tuple[str, bytes | None]]:
    """The next changes as key and value, at least so many."""
    found: list[tuple[str, bytes | None]] = []
    async with asyncio.timeout(LONG_S):
        while len(found) < count:
            events = await anext(watch)
            assert len({event.revision for event in events}) == 1
            found += [(event.key, None if event.entry is None else event.entry.value) for event in events]
    return found


async def test_a_key_that_is_not_there(store: MetadataStore, at: str) -> None:
    assert await store.get(at + "a") is None
    assert (await store.list(at)).entries == ()
    assert not await store.delete(at + "a")


async def test_an_entry_has_the_revisions_that_created_and_changed_it(store: MetadataStore, at: str) -> None:
    first = await store.put(at + "a", b"1")
    second = await store.put(at + "a", b"\0\xff")
    assert second == first + 1
    found = await store.get(at + "a")
    assert found is not None
    assert (found.key, found.value, found.created, found.modified) == (at + "a", b"\0\xff", first, second)
    assert await store.delete(at + "a")
    again = await store.put(at + "a", b"")
    found = await store.get(at + "a")
    assert found is not None
    assert (found.value, found.created, found.modified) == (b"", again, again)


async def test_a_delete_of_nothing_makes_no_revision(store: MetadataStore, at: str) -> None:
    revision = await store.put(at + "a", b"1")
    await store.delete(at + "b")
    assert await store.transact([], [Delete(at + "b")])
    assert await store.transact([], [])
    assert await store.put(at + "a", b"1") == revision + 1, "a put of the same value does"


async def test_a_listing_is_sorted_and_holds_what_begins_with_its_prefix(
    store: MetadataStore, at: str
) -> None:
    for name in ("b/2", "b/1", "b", "ba", "c", "b/ö", "b/%", "b/_"):
        await store.put(at + name, name.encode())
    listing = await store.list(at + "b/")
    assert [entry.key.removeprefix(at) for entry in listing.entries] == ["b/%", "b/1", "b/2", "b/_", "b/ö"]
    assert listing.revision >= max(entry.modified for entry in listing.entries)
    assert [entry.key.removeprefix(at) for entry in (await store.list(at + "b")).entries] == [
        *("b", "b/%", "b/1", "b/2", "b/_", "b/ö", "ba")
    ]


async def test_a_long_listing_is_whole(store: MetadataStore, at: str) -> None:
    names = [f"{at}{number:04}" for number in range(1100)]
    for first in range(0, len(names), TRANSACTION_LIMIT):
        assert await store.transact(
            [], [Put(name, b"x") for name in names[first : first + TRANSACTION_LIMIT]]
        )
    assert [entry.key for entry in (await store.list(at)).entries] == names


async def test_a_transaction_happens_whole_or_not_at_all(store: MetadataStore, at: str) -> None:
    assert await store.transact([Unchanged(at + "a", 0)], [Put(at + "a", b"1"), Put(at + "b", b"2")])
    a, b = await store.get(at + "a"), await store.get(at + "b")
    assert a is not None
    assert b is not None
    assert a.modified == b.modified
    assert not await store.transact([Unchanged(at + "a", 0)], [Delete(at + "b"), Put(at + "c", b"3")])
    assert await store.get(at + "c") is None
    same = [Unchanged(at + "a", a.modified), Unchanged(at + "b", b.modified), Unchanged(at + "c", 0)]
    assert await store.transact(same, [Delete(at + "a"), Put(at + "b", b"4"), Put(at + "c", b"3")])
    assert [(entry.key, entry.value) for entry in (await store.list(at)).entries] == [
        (at + "b", b"4"),
        (at + "c", b"3"),
    ]
    assert not await store.transact(same, [Put(at + "d", b"")])


async def test_of_writers_that_race_one_wins(store: MetadataStore, at: str) -> None:
    async def count_up() -> None:
        done = False
        while not done:
            found = await store.get(at + "n")
            number = int(found.value) if found else 0
            condition = Unchanged(at + "n", found.modified if found else 0)
            done = await store.transact([condition], [Put(at + "n", b"%d" % (number + 1))])

    await asyncio.gather(*(count_up() for _ in range(8)))
    found = await store.get(at + "n")
    assert found is not None
    assert found.value == b"8"


async def test_a_transaction_that_etcd_would_refuse_is_refused_everywhere(
    store: MetadataStore, at: str
) -> None:
    with pytest.raises(ValueError, match="must have distinct keys"):
        await store.transact([], [Put(at + "a", b""), Delete(at + "a")])
    many = [Put(f"{at}{number}", b"") for number in range(TRANSACTION_LIMIT + 1)]
    with pytest.raises(ValueError, match="at most 128 conditions and changes, not 0 and 129"):
        await store.transact([], many)
    with pytest.raises(ValueError, match="not 129 and 0"):
        await store.transact([Unchanged(put.key, 0) for put in many], [])
    assert await store.transact([Unchanged(put.key, 0) for put in many[:-1]], many[:-1])


async def test_a_watch_yields_past_and_future_changes_in_order(store: MetadataStore, at: str) -> None:
    start = await store.put(at + "a", b"0")
    await store.put(at + "a", b"1")
    await store.put("/another" + at, b"")
    async with aclosing(store.watch(at, start)) as watch:
        assert await taken(watch, 1) == [(at + "a", b"1")]
        coming = asyncio.ensure_future(taken(watch, 4))
        await asyncio.sleep(0)
        await store.transact([], [Put(at + "b", b"2"), Delete(at + "a")])
        await store.delete(at + "b")
        await store.put(at + "b", b"3")
        found = await coming
    assert sorted(found[:2]) == [(at + "a", None), (at + "b", b"2")]
    assert found[2:] == [(at + "b", None), (at + "b", b"3")]


async def test_several_watches_each_get_everything(store: MetadataStore, at: str) -> None:
    start = await store.put(at + "a", b"0")
    watches = [store.watch(at, start) for _ in range(3)]
    coming = [asyncio.ensure_future(taken(watch, 20)) for watch in watches]
    for number in range(20):
        await store.put(at + "a", b"%d" % number)
    for found in await asyncio.gather(*coming):
        assert found == [(at + "a", b"%d" % number) for number in range(20)]
    for watch in watches:
        await watch.aclose()


async def test_closing_ends_a_watch(store: MetadataStore, at: str) -> None:
    start = await store.put(at + "a", b"0")

    async def all_of() -> int:
        return sum([len(events) async for events in store.watch(at, start - 1)])

    watching = asyncio.ensure_future(all_of())
    async with asyncio.timeout(LONG_S):
        async with aclosing(store.watch(at, start - 1)) as watch:
            await anext(watch)  # so the other one has begun, too
        await store.close()
        assert await watching in (0, 1)
    with pytest.raises(StoreError, match="was closed"):
        await store.get(at + "a")
    await store.close()


async def test_a_lease_that_ends_takes_its_keys_along(store: MetadataStore, at: str) -> None:
    lease = await store.grant(60)
    start = await store.put(at + "a", b"1", lease)
    await store.transact([], [Put(at + "b", b"2", lease)])
    await store.put(at + "c", b"3")
    found = await store.get(at + "a")
    assert found is not None
    assert found.lease == lease
    await store.keep_alive(lease)
    await store.revoke(lease)
    assert [entry.key for entry in (await store.list(at)).entries] == [at + "c"]
    async with aclosing(store.watch(at, start)) as watch:
        events = [event async for events in _first(watch, 3) for event in events]
    assert [(event.key, event.entry is None) for event in events[:2]] == [
        (at + "b", False),
        (at + "c", False),
    ]
    assert {(event.key, event.entry) for event in events[2:]} == {(at + "a", None), (at + "b", None)}
    assert events[2].revision == events[3].revision, "the lease's keys go in one revision"
    await store.revoke(lease)
    with pytest.raises(LeaseExpiredError):
        await store.keep_alive(lease)
    with pytest.raises(LeaseExpiredError):
        await store.put(at + "d", b"", lease)
    with pytest.raises(LeaseExpiredError):
        await store.transact([], [Put(at + "c", b"4"), Put(at + "d", b"", lease)])
    found = await store.get(at + "c")
    assert found is not None
    assert found.value == b"3"


async def test_a_key_that_is_set_anew_leaves_its_lease(store: MetadataStore, at: str) -> None:
    one, two = await store.grant(60), await store.grant(60)
    await store.put(at + "a", b"1", one)
    await store.put(at + "b", b"1", one)
    await store.put(at + "a", b"2", two)
    await store.put(at + "b", b"2")
    await store.revoke(one)
    assert [entry.key for entry in (await store.list(at)).entries] == [at + "a", at + "b"]
    await store.revoke(two)
    assert [entry.key for entry in (await store.list(at)).entries] == [at + "b"]


async def test_a_lease_expires_unless_it_is_kept_alive(store: MetadataStore, at: str) -> None:
    start = await store.put(at + "before", b"")
    lease = await put_on_lease(store, at + "a")
    async with aclosing(store.watch(at + "a", start)) as watch:
        assert await taken(watch, 2) == [(at + "a", b"1"), (at + "a", None)]
    assert [entry.key for entry in (await store.list(at)).entries] == [at + "before"]
    with pytest.raises(LeaseExpiredError):
        await store.keep_alive(lease)


async def put_on_lease(store: MetadataStore, key: str) -> int:
    """Put a key on a lease as short as this machine lets one be used, which is returned.

    A machine that stalls between the two needs a longer one.
    """
    for ttl_s in (1, 5, 60):
        lease = await store.grant(ttl_s)
        with suppress(LeaseExpiredError):
            await store.put(key, b"1", lease)
            return lease
    raise AssertionError("a lease of a minute is over at once")


async def test_a_lease_is_at_least_a_second(store: MetadataStore) -> None:
    with pytest.raises(ValueError, match="a lease lasts at least 1 s, not 0"):
        await store.grant(0)


async def _first(watch: AsyncIterator[Sequence[Event]], count: int) -> AsyncIterator[Sequence[Event]]:
    for _ in range(count):
        yield await anext(watch)
