"""Random steps on every metadata store, held against a model that is too simple to be wrong."""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from benchmarks.harness.etcd import Etcd
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.stateful import run_state_machine_as_test as run_machine

from sluicegate.store.metadata import (
    NO_LEASE,
    CompactedError,
    Delete,
    LeaseExpiredError,
    MemoryMetadata,
    MetadataStore,
    Put,
    Unchanged,
)
from sluicegate.store.metadata.etcd.address import etcd_address
from sluicegate.store.metadata.opening import etcd_metadata
from sluicegate.store.metadata.sqlite import SqliteMetadata

SECOND = 1_000_000_000
Held = tuple[bytes, int, int, int]
"""Value, lease, revision that created the key, revision that changed it last."""
Result = TypeVar("Result")
keys = st.sampled_from(["a", "a/1", "a/2", "b/ö", "b"])
prefixes = st.sampled_from(["", "a", "a/", "b", "c"])
values = st.binary(max_size=2)
_runs = count(1)


@dataclass
class Model:
    """All that a store ever held, by revision."""

    states: list[dict[str, Held]] = field(default_factory=lambda: [{}])
    leases: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Seconds, and when it expires, by lease."""
    compacted: int = 0

    @property
    def now(self) -> dict[str, Held]:
        return self.states[-1]

    def change(self, changes: list[Put | Delete]) -> None:
        after = dict(self.now)
        number = len(self.states)
        for change in changes:
            old = after.pop(change.key, None)
            if isinstance(change, Put):
                created = number if old is None else old[2]
                after[change.key] = (change.value, change.lease, created, number)
        if after != self.now:
            self.states.append(after)

    def end(self, lease: int) -> None:
        if self.leases.pop(lease, None) is not None:
            self.change([Delete(key) for key, held in self.now.items() if held[1] == lease])

    def expire(self, now_ns: int) -> None:
        for lease in sorted(self.leases, key=lambda lease: (self.leases[lease][1], lease)):
            if self.leases[lease][1] <= now_ns:
                self.end(lease)

    def changes(self, prefix: str, after: int) -> list[set[tuple[str, bytes | None]]]:
        found = []
        for before, state in zip(self.states[after:], self.states[after + 1 :], strict=False):
            names = {name for name in before | state if before.get(name) != state.get(name)}
            found.append({(n, state[n][0] if n in state else None) for n in names if n.startswith(prefix)})
        return [events for events in found if events]


class Machine(RuleBasedStateMachine):
    """One run; the subclasses open their store."""

    has_clock = True
    at = ""
    """Begins all keys."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0
        self.model = Model()
        self.offset = 0
        """The store's revision when the run began."""
        self.runner = asyncio.Runner()

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)

    def open(self) -> MetadataStore:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.store = self.open()
        self.offset = self.do(self.store.list(self.at)).revision

    def teardown(self) -> None:
        self.do(self.store.close())
        self.runner.close()

    def leases(self, data: st.DataObject) -> int:
        lease: int = data.draw(st.sampled_from([NO_LEASE, *self.model.leases, 10**9]))
        return lease

    def drawn(self, data: st.DataObject) -> list[Put | Delete]:
        chosen = data.draw(st.lists(keys, unique=True, max_size=4))
        found: list[Put | Delete] = []
        for key in chosen:
            if data.draw(st.booleans()):
                found.append(Put(key, data.draw(values), self.leases(data)))
            else:
                found.append(Delete(key))
        return found

    def named(self, change: Put | Delete) -> Put | Delete:
        if isinstance(change, Put):
            return Put(self.at + change.key, change.value, change.lease)
        return Delete(self.at + change.key)

    @rule(key=keys, value=values)
    def put(self, key: str, value: bytes) -> None:
        revision = self.do(self.store.put(self.at + key, value))
        self.model.change([Put(key, value)])
        assert revision == self.offset + len(self.model.states) - 1

    @rule(key=keys)
    def delete(self, key: str) -> None:
        assert self.do(self.store.delete(self.at + key)) == (key in self.model.now)
        self.model.change([Delete(key)])

    @rule(data=st.data())
    def transact(self, data: st.DataObject) -> None:
        changes = self.drawn(data)
        conditions, hold = [], True
        for key in data.draw(st.lists(keys, max_size=2)):
            modified = self.model.now[key][3] if key in self.model.now else 0
            guessed = data.draw(st.sampled_from([modified, modified, 0, 1]))
            conditions.append(Unchanged(self.at + key, guessed + self.offset if guessed else 0))
            hold = hold and guessed == modified
        gone = any(isinstance(c, Put) and c.lease not in (0, *self.model.leases) for c in changes)
        done = self.store.transact(conditions, [self.named(change) for change in changes])
        if hold and gone:
            with pytest.raises(LeaseExpiredError):
                self.do(done)
        else:
            try:
                assert self.do(done) == hold
            except LeaseExpiredError:
                assert gone  # etcd looks at leases whether the conditions hold or not
            else:
                self.model.change(changes if hold else [])

    @rule(ttl_s=st.integers(1, 5))
    def grant(self, ttl_s: int) -> None:
        ttl_s = ttl_s if self.has_clock else 3600
        self.model.leases[self.do(self.store.grant(ttl_s))] = (ttl_s, self.now_ns + ttl_s * SECOND)

    @rule(data=st.data())
    def keep_alive(self, data: st.DataObject) -> None:
        lease = self.leases(data) or 10**9
        if lease in self.model.leases:
            self.do(self.store.keep_alive(lease))
            ttl_s, _ = self.model.leases[lease]
            self.model.leases[lease] = (ttl_s, self.now_ns + ttl_s * SECOND)
        else:
            with pytest.raises(LeaseExpiredError):
                self.do(self.store.keep_alive(lease))

    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        lease = self.leases(data) or 10**9
        self.do(self.store.revoke(lease))
        self.model.end(lease)

    @precondition(lambda self: self.has_clock)
    @rule(passed_s=st.integers(0, 4))
    def wait(self, passed_s: int) -> None:
        self.now_ns += passed_s * SECOND
        self.model.expire(self.now_ns)

    @precondition(lambda self: self.has_clock)
    @rule()
    def compact(self) -> None:
        self.do(self.store.list(""))  # what has expired is noticed by the next call
        assert isinstance(self.store, MemoryMetadata | SqliteMetadata)
        self.do(self.store.compact())
        self.model.compacted = len(self.model.states) - 1

    @rule(prefix=prefixes, data=st.data())
    def watch(self, prefix: str, data: st.DataObject) -> None:
        after = data.draw(st.integers(0, len(self.model.states) - 1))
        if after < self.model.compacted:
            with pytest.raises(CompactedError):
                self.do(self.seen(prefix, after, 1))
            return
        expected = self.model.changes(prefix, after)
        assert self.do(self.seen(prefix, after, len(expected))) == expected

    async def seen(self, prefix: str, after: int, number: int) -> list[set[tuple[str, bytes | None]]]:
        await self.store.list("")
        found = []
        async with aclosing(self.store.watch(self.at + prefix, self.offset + after)) as watch:
            for _ in range(number):
                events = await anext(watch)
                found.append(
                    {
                        (e.key.removeprefix(self.at), None if e.entry is None else e.entry.value)
                        for e in events
                    }
                )
        return found

    @invariant()
    def holds_the_same(self) -> None:
        listing = self.do(self.store.list(self.at))
        assert listing.revision == self.offset + len(self.model.states) - 1
        assert {
            entry.key.removeprefix(self.at): (
                entry.value,
                entry.lease,
                entry.created - self.offset,
                entry.modified - self.offset,
            )
            for entry in listing.entries
        } == self.model.now
        one = self.do(self.store.get(self.at + "a/1"))
        assert (one is not None) == ("a/1" in self.model.now)


class InMemory(Machine):
    def open(self) -> MetadataStore:
        return MemoryMetadata(lambda: self.now_ns)


class InSqlite(Machine):
    def open(self) -> MetadataStore:
        self.folder = TemporaryDirectory()
        return SqliteMetadata(Path(self.folder.name) / "m.db", lambda: self.now_ns)

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class InEtcd(Machine):
    has_clock = False
    url = ""

    def open(self) -> MetadataStore:
        address = etcd_address(self.url)
        assert address is not None
        self.at = f"/machine/{next(_runs)}/"
        return etcd_metadata(address)


def test_in_memory() -> None:
    run_machine(InMemory, settings=settings(max_examples=60, stateful_step_count=30))


def test_in_sqlite() -> None:
    run_machine(InSqlite, settings=settings(max_examples=15, stateful_step_count=30))


def test_in_etcd(own_etcd: Etcd) -> None:
    """With an etcd of its own: the revisions of another test's changes would come in between."""
    InEtcd.url = own_etcd.url
    run_machine(InEtcd, settings=settings(max_examples=8, stateful_step_count=20))
