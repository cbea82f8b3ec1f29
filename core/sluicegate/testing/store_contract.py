"""The suite that every policy store passes, for stores of your own too."""

import threading

import pytest

from sluicegate.model import Level, PolicyLayer, PolicyValue, Setting, Source
from sluicegate.store import Author, Change, Edit, Key, PolicyStore, StoreConflictError

RATE = "max_publish_rate"


class PolicyStoreContract:
    """Tests of a `PolicyStore`; a class that derives from it gives them one by a fixture `store`.

    The store is empty, and is closed by the fixture.
    """

    def test_an_empty_store_says_nothing(self, store: PolicyStore) -> None:
        assert store.layers() == (0, ())
        assert store.version() == 0
        assert store.history(5) == []

    def test_a_fact_can_be_claimed_once(self, store: PolicyStore) -> None:
        assert store.claim_fact("b/broker.1", "x:1") == "x:1"
        assert store.claim_fact("b/broker.1", "y:1") == "x:1"
        assert store.claim_fact("b/broker.1", "x:1") == "x:1"
        assert store.facts("b/") == {"b/broker.1": "x:1"}
        store.put_fact("b/broker.2", "z:1")
        assert store.claim_fact("b/broker.2", "x:1") == "z:1"

    def test_a_fact_without_a_value_is_removed_and_can_be_claimed_again(self, store: PolicyStore) -> None:
        store.claim_fact("b/broker.1", "x:1")
        for _ in range(2):
            store.put_fact("b/broker.1", "")
            assert store.facts("b/broker.1").get("b/broker.1") is None
            assert store.facts("b/") == {}
        assert store.claim_fact("b/broker.1", "y:1") == "y:1"

    def test_settings_come_back_as_layers_in_the_order_of_the_levels(self, store: PolicyStore) -> None:
        store.set(Level.TOPIC, "orders.created", RATE, 5, "ann")
        store.set(Level.BROKER, "", RATE, 0, "ann")
        store.set(Level.BROKER, "", "ceiling." + RATE, 100, "ann")
        assert store.layers() == (
            3,
            (
                PolicyLayer(
                    Level.BROKER,
                    "",
                    {RATE: Setting(0, Source.STORE, "store version 2")},
                    {RATE: Setting(100, Source.STORE, "store version 3")},
                ),
                PolicyLayer(
                    Level.TOPIC, "orders.created", {RATE: Setting(5, Source.STORE, "store version 1")}
                ),
            ),
        )

    @pytest.mark.parametrize("value", [0, 1, 2**32 - 1, 1.5, True, False, "delay"])
    def test_values_keep_their_types(self, store: PolicyStore, value: PolicyValue) -> None:
        store.set(Level.BROKER, "", "field", value, "")
        _, [layer] = store.layers()
        kept = layer.settings["field"].value
        assert kept == value
        assert type(kept) is type(value)

    def test_the_version_changes_if_and_only_if_something_changed(self, store: PolicyStore) -> None:
        assert store.set(Level.BROKER, "", RATE, 1, "ann") == 1
        assert store.set(Level.BROKER, "", RATE, 1, "bob") == 1
        assert store.set(Level.BROKER, "", RATE, True, "ann") == 2
        assert store.unset(Level.BROKER, "", "other", "ann") == 2
        assert store.unset(Level.BROKER, "", RATE, "ann") == 3
        assert store.unset(Level.BROKER, "", RATE, "ann") == 3
        assert store.layers() == (3, ())

    def test_history_names_the_actor_newest_first(self, store: PolicyStore) -> None:
        store.set(Level.NAMESPACE, "orders", RATE, 5, "ann")
        store.unset(Level.NAMESPACE, "orders", RATE, "bob")
        newest, oldest = store.history(9)
        key = Key(Level.NAMESPACE, "orders", RATE)
        assert (newest.number, newest.author, newest.changes) == (2, Author("bob"), (Change(key, 5, None),))
        assert (oldest.number, oldest.author, oldest.changes) == (1, Author("ann"), (Change(key, None, 5),))
        assert newest.at.endswith("+00:00")
        assert store.history(1) == [newest]

    def test_fields_change_together(self, store: PolicyStore) -> None:
        store.set(Level.TOPIC, "t", "same", 1, "ann")
        store.set(Level.TOPIC, "t", "gone", 1, "ann")
        changes = _edits(Level.TOPIC, "t", {RATE: 5, "same": 1, "gone": None, "other": True})
        author = Author("bob", "the fair begins")
        assert store.change(changes, author, policies="3f9a") == 3
        version, [layer] = store.layers()
        assert version == 3
        assert {name: (each.value, each.location) for name, each in layer.settings.items()} == {
            RATE: (5, "store version 3"),
            "other": (True, "store version 3"),
            "same": (1, "store version 1"),
        }
        [revision] = store.history(1)
        assert (revision.number, revision.author, revision.policies) == (3, author, "3f9a")
        assert [(each.key.field, each.old, each.new) for each in revision.changes] == [
            (RATE, None, 5),
            ("gone", 1, None),
            ("other", None, True),
        ]
        assert store.history(9, before=3) == store.history(9)[1:]
        assert store.change(changes, author) == 3
        assert store.change([], author) == 3

    def test_a_setting_for_one_broker_stands_beside_that_for_all(self, store: PolicyStore) -> None:
        store.set(Level.TOPIC, "t", RATE, 5, "ann")
        store.change(_edits(Level.TOPIC, "t", {RATE: 7}, broker="stage"), Author("ann"))
        _, layers = store.layers()
        assert [(layer.broker, layer.settings[RATE].value) for layer in layers] == [("", 5), ("stage", 7)]
        store.unset(Level.TOPIC, "t", RATE, "ann")
        assert [layer.broker for layer in store.layers()[1]] == ["stage"]

    def test_a_change_from_another_version_is_refused(self, store: PolicyStore) -> None:
        store.set(Level.TOPIC, "t", RATE, 5, "ann")
        change = _edits(Level.TOPIC, "t", {RATE: 6})
        with pytest.raises(
            StoreConflictError, match="has version 1 now, not 0: somebody else has changed it"
        ):
            store.change(change, Author("bob"), expected=0)
        assert store.version() == 1
        assert store.change(change, Author("bob"), expected=1) == 2

    def test_a_change_of_the_file_is_noted_and_changes_no_setting(self, store: PolicyStore) -> None:
        store.set(Level.TOPIC, "t", RATE, 5, "ann")
        _, before = store.layers()
        changes = [Change(Key(Level.BROKER, "", RATE), None, 9)]
        assert store.record(Author("gateway.yaml"), changes, "3f9a") == 2
        assert store.layers() == (2, before)
        assert [(each.is_of_file, each.changes[0].new) for each in store.history(9)] == [
            (True, 9),
            (False, 5),
        ]

    def test_facts_are_found_by_their_beginning_and_have_no_part_in_the_version(
        self, store: PolicyStore
    ) -> None:
        store.put_fact("main/node/1", "a:1")
        store.put_fact("main/node/1", "a:2")
        store.put_fact("main/node/2", "b:1")
        store.put_fact("main%node", "c")
        assert store.facts("main/node/1").get("main/node/1") == "a:2"
        assert store.facts("main/node/3").get("main/node/3") is None
        assert store.facts("main/node/") == {"main/node/1": "a:2", "main/node/2": "b:1"}
        assert store.version() == 0

    def test_writers_on_several_threads_lose_nothing(self, store: PolicyStore) -> None:
        def write(thread: int) -> None:
            for number in range(20):
                store.set(Level.TOPIC, f"t{thread}", f"f{number}", number, "")

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        version, layers = store.layers()
        assert version == 80
        assert [len(layer.settings) for layer in layers] == [20] * 4


def _edits(level: Level, name: str, fields: dict[str, PolicyValue | None], broker: str = "") -> list[Edit]:
    return [Edit(Key(level, name, field, broker), value) for field, value in fields.items()]
