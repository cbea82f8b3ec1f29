"""Policies that gateways share: several stores on the same keys, and an etcd that is away."""

import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks.harness.etcd import Etcd
from tests.store.conftest import Clock
from tests.store.edits import edits
from tests.store.test_gateways_on_etcd import lab_on
from tests.waiting import until

from sluicegate.model import Level, PolicyValue
from sluicegate.runtime.plugins import CHOICE
from sluicegate.store import Author, PolicyStore, StoreError
from sluicegate.store import replica as replica_module
from sluicegate.store.metadata import Event, Listing, MemoryMetadata
from sluicegate.store.plugin import sluicegate_metadata_store
from sluicegate.store.shared_store import SharedStore

RATE = "max_publish_rate"


@contextmanager
def opened(url: str) -> Iterator[PolicyStore]:
    store = sluicegate_metadata_store(url=url)
    assert store is not None
    try:
        yield store
    finally:
        store.close()


def rate(store: PolicyStore) -> object:
    _, layers = store.layers()
    return layers[0].settings[RATE].value if layers else None


def test_a_change_in_one_store_reaches_the_others(etcd_url: str) -> None:
    with opened(etcd_url) as one, opened(etcd_url) as two, opened(etcd_url + "-other") as other:
        version = one.set(Level.BROKER, "", RATE, 5, "ann")
        until(lambda: two.version() == version)
        assert rate(two) == 5
        assert two.unset(Level.BROKER, "", RATE, "bob") == version + 1
        until(lambda: one.version() == version + 1)
        assert rate(one) is None
        assert [each.author.actor for each in one.history(9)] == ["bob", "ann"]
        two.put_fact("main/node/1", "a:1")
        assert one.facts("main/") == {"main/node/1": "a:1"}
        assert (other.version(), other.history(9), other.facts("")) == (0, [], {})


def test_two_administrators_lose_no_update(etcd_url: str) -> None:
    with opened(etcd_url) as one, opened(etcd_url) as two:

        def write(store: PolicyStore, actor: str) -> None:
            for number in range(15):
                store.set(Level.TOPIC, "t", f"{actor}{number}", number, actor)
                store.set(Level.TOPIC, "t", "both", f"{actor}{number}", actor)

        threads = [threading.Thread(target=write, args=args) for args in ((one, "ann"), (two, "bob"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: one.version() == two.version() == 60)
        assert one.layers() == two.layers()
        _, [layer] = one.layers()
        assert len(layer.settings) == 31
        changes = one.history(100)
        assert [each.number for each in changes] == list(range(60, 0, -1)), "each change made a version"
        last = next(each.changes[0] for each in changes if each.changes[0].key.field == "both")
        assert layer.settings["both"].value == last.new


def test_threads_of_one_process_take_turns(etcd_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where etcd is slow, changes that interfere with each other all the time would end in an error."""
    commit, done = SharedStore._commit, list[bool]()

    async def noted(store: SharedStore, *given: Any) -> int | None:
        version = await commit(store, *given)
        done.append(version is not None)
        return version

    monkeypatch.setattr(SharedStore, "_commit", noted)
    with opened(etcd_url) as store:

        def write(topic: str) -> None:
            for number in range(5):
                store.set(Level.TOPIC, topic, RATE, number, "ann")

        threads = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert done == [True] * 20


def test_the_history_is_bounded(etcd_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.store.shared_store._KEPT_CHANGES", 3)
    with opened(etcd_url) as store:
        for number in range(5):
            store.set(Level.BROKER, "", RATE, number, "ann")
        assert [each.number for each in store.history(10)] == [5, 4, 3]
        assert [each.number for each in store.history(2)] == [5, 4]
        assert store.history(0) == []


def test_while_etcd_is_away_the_age_is_told(own_etcd: Etcd, clock: Clock) -> None:
    with opened(own_etcd.url) as store:
        version = store.set(Level.BROKER, "", RATE, 5, "ann")
        own_etcd.kill()
        clock.turn()
        until(lambda: "cannot be reached" in str(error_of(store.version)))
        assert "policy store in etcd does not respond, the known policies are" in str(error_of(store.version))
        assert error_of(store.layers)
        with pytest.raises(StoreError, match="cannot be reached"):
            store.set(Level.BROKER, "", RATE, 6, "ann")
        own_etcd.start()
        until(lambda: not error_of(store.version))
        assert (store.version(), rate(store)) == (version, 5)
        assert store.set(Level.BROKER, "", RATE, 6, "ann") == version + 1


def error_of(ask: Callable[[], object]) -> StoreError | None:
    try:
        ask()
    except StoreError as error:
        return error
    return None


def test_an_etcd_that_is_down_at_the_start_is_reported_at_once(own_etcd: Etcd) -> None:
    own_etcd.stop()
    with pytest.raises(StoreError, match="cannot be reached"):
        sluicegate_metadata_store(url=own_etcd.url)
    assert not [thread for thread in threading.enumerate() if thread.name == "policy store"]


BAD = [
    b"",
    b"[]",
    b"{}",
    b'{"level": "planet", "field": "a", "value": 1, "version": 1}',
    b'{"level"',
    b"\xff",
    b"[" * 100_000,
]


class Lab:
    """A shared store in memory, and another client of its keys."""

    def __init__(self) -> None:
        self.metadata = MemoryMetadata()
        self.store = SharedStore(lambda: self.metadata, "/gates", "the store", 60.0)

    def put(self, key: str, value: bytes | None) -> None:
        """As another program would do."""
        work = self.metadata.delete(key) if value is None else self.metadata.put(key, value)
        self.store._run(work)

    def revision(self) -> int:
        """How many transactions there were."""
        return self.store._run(self.metadata.list("/gates/")).revision


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    yield made
    made.store.close()


@pytest.mark.parametrize("value", BAD)
def test_a_key_that_holds_no_policy_is_named_and_nothing_is_deleted(lab: Lab, value: bytes) -> None:
    lab.store.set(Level.BROKER, "", RATE, 5, "ann")
    lab.put("/gates/policies/set/topic/t/x", value)
    error = until(lambda: error_of(lab.store.version))
    assert error is not None
    assert "the store holds '/gates/policies/set/topic/t/x', which is not a policy" in str(error)
    assert error.remedy == "correct or delete that key"
    lab.put("/gates/policies/set/topic/t/x", None)
    until(lambda: not error_of(lab.store.version))
    assert rate(lab.store) == 5


def test_a_change_is_one_transaction(lab: Lab) -> None:
    lab.store.set(Level.TOPIC, "t", "gone", 1, "ann")
    before = lab.revision()
    fields: dict[str, PolicyValue | None] = {f"f{number:03}": number for number in range(124)}
    assert lab.store.change(edits(Level.TOPIC, "t", {**fields, "gone": None}), Author("ann")) == 2
    assert lab.revision() == before + 1
    with pytest.raises(StoreError, match="takes at most 125 fields in one change: make several changes"):
        lab.store.change(edits(Level.TOPIC, "t", {**fields, "g": 1, "h": 1}), Author("ann"))
    assert lab.store.version() == 2


def test_a_counter_that_is_no_number(lab: Lab) -> None:
    lab.put("/gates/policies/version", b"seven")
    until(lambda: error_of(lab.store.version))
    with pytest.raises(StoreError, match="the store holds invalid policies"):
        lab.store.set(Level.BROKER, "", RATE, 5, "ann")


@pytest.mark.parametrize("value", [b'{"number": 7}', b"[" * 100_000])
def test_a_history_that_cannot_be_read(lab: Lab, value: bytes) -> None:
    lab.put("/gates/history/0000000000000007", value)
    with pytest.raises(StoreError, match="a history that cannot be read"):
        lab.store.history(5)


def test_after_a_compaction_the_policies_are_listed_again(lab: Lab) -> None:
    lab.store.set(Level.BROKER, "", RATE, 5, "ann")

    async def compacted() -> None:
        await lab.metadata.put("/gates/policies/version", b"9")
        await lab.metadata.compact()

    lab.store._run(compacted())
    until(lambda: lab.store.version() == 9)
    assert rate(lab.store) == 5


class Deaf(MemoryMetadata):
    """Its watches give nothing."""

    listings = 0

    async def list(self, prefix: str) -> Listing:
        self.listings += 1
        return await super().list(prefix)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
        async for _ in super().watch("nothing begins so", after):
            yield ()  # never


def test_a_watch_that_is_silent_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "_CONFIRM_S", 0.01)
    metadata = Deaf()
    store = SharedStore(lambda: metadata, "/gates", "the store", 60.0)
    store._timeout_s = 0.1  # a change does not wait long for its own arrival
    store.set(Level.BROKER, "", RATE, 5, "ann")
    until(lambda: store.version() == 1)
    assert metadata.listings >= 2
    store.close()


def test_a_store_that_was_closed(lab: Lab) -> None:
    lab.store.close()
    for ask in (
        lab.store.version,
        lab.store.layers,
        lambda: lab.store.facts(""),
        lambda: lab.store.history(1),
    ):
        error = error_of(ask)
        assert error is not None
        assert str(error) == "the store was closed: open it again"
    lab.store.close()


def test_of_two_writers_one_claims_a_fact(etcd_url: str) -> None:
    with opened(etcd_url) as one, opened(etcd_url) as two:
        both = threading.Barrier(2)
        told: dict[tuple[str, int], str] = {}

        def claim(store: PolicyStore, broker: str) -> None:
            for port in range(20):
                both.wait()
                told[broker, port] = store.claim_fact(f"main/broker.{port}", broker)

        threads = [threading.Thread(target=claim, args=args) for args in ((one, "a:1"), (two, "b:1"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = one.facts("main/")
        for port in range(20):
            assert told["a:1", port] == told["b:1", port] == kept[f"main/broker.{port}"]


def test_gateways_that_learn_of_two_brokers_at_once_share_no_port(
    etcd_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is told, and takes over the store's ports when it is restarted."""
    monkeypatch.setenv(CHOICE, "")
    one, two = lab_on(tmp_path / "one", etcd_url), lab_on(tmp_path / "two", etcd_url)
    one.watch.keep_fact("b1", "broker.2", "x:1")
    two.watch.keep_fact("b1", "broker.2", "y:1")
    two.watch.keep_fact("b1", "node.2", "y:1")
    one.watch.keep_fact("b1", "node.2", "z:1")
    assert (one.watch.facts_conflicting, two.watch.facts_conflicting) == (0, 1)
    assert "the port of y:1 belongs to x:1 at another gateway" in caplog.text
    for lab in (one, two):
        assert lab.watch.facts("b1") == {"broker.2": "x:1", "node.2": "z:1"}, "a node may move"
        assert lab.watch.facts_waiting == 0
        lab.watch.close()
