"""Changing the store."""

from collections.abc import Sequence

import pytest
from tests.runtime.rules import change_beside

from sluicegate.broker import PolicyRefusedError, PolicyUnavailableError
from sluicegate.config.fields import PolicyFields
from sluicegate.model import Level
from sluicegate.policies.connections import ConnectionPolicies
from sluicegate.policies.delay import DelayPolicies
from sluicegate.policies.size import SizePolicies
from sluicegate.store import Author, Edit, MemoryStore, StoreError

FIELDS = PolicyFields.of([ConnectionPolicies, DelayPolicies, SizePolicies])


def test_values_are_checked_and_kept_in_base_units() -> None:
    store = MemoryStore()
    changes = {"fixed_delivery_delay": "30s", "max_message_size": 5, "delayed_delivery_active": False}
    change_beside(store, FIELDS, Level.TOPIC, "t", changes, "ann")

    _, [layer] = store.layers()
    assert {name: setting.value for name, setting in layer.settings.items()} == {
        "fixed_delivery_delay": 30_000,
        "max_message_size": 5,
        "delayed_delivery_active": False,
    }
    assert {revision.author.actor for revision in store.history(9)} == {"ann"}

    change_beside(store, FIELDS, Level.TOPIC, "t", dict.fromkeys(changes), "ann")
    assert store.layers()[1] == ()


def test_a_field_may_be_named_by_its_alias() -> None:
    store = MemoryStore()
    change_beside(store, FIELDS, Level.TOPIC, "t", {"fixedDeliveryDelayInMillis": "30s"}, "ann")
    _, [layer] = store.layers()
    assert {name: setting.value for name, setting in layer.settings.items()} == {
        "fixed_delivery_delay": 30_000
    }
    change_beside(store, FIELDS, Level.TOPIC, "t", {"fixedDeliveryDelayInMillis": None}, "ann")
    assert store.layers()[1] == ()


def test_a_field_that_is_named_twice_changes_nothing() -> None:
    store = MemoryStore()
    changes = {"fixed_delivery_delay": "30s", "fixedDeliveryDelayInMillis": "40s"}
    with pytest.raises(PolicyRefusedError, match="fixed_delivery_delay is named twice"):
        change_beside(store, FIELDS, Level.TOPIC, "t", changes, "ann")
    assert store.version() == 0


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("max_mesage_size", 1, "unknown policy 'max_mesage_size'"),
        ("max_message_size", -1, "max_message_size: -1 is negative; write 0 for unlimited"),
        ("fixed_delivery_delay", "36526d", "fixed_delivery_delay: '36526d' is too large: at most 36525d"),
        ("delayed_delivery_active", "yes", "delayed_delivery_active: Input should be a valid boolean"),
    ],
)
def test_one_invalid_value_changes_nothing(field: str, value: object, text: str) -> None:
    store = MemoryStore()
    with pytest.raises(PolicyRefusedError) as refused:
        change_beside(store, FIELDS, Level.TOPIC, "t", {"max_delivery_delay": 5, field: value}, "ann")

    assert str(refused.value).startswith(text)
    assert store.version() == 0


@pytest.mark.parametrize("field", ["connection_rate_limit", "ceiling.connection_rate_limit"])
def test_what_the_broker_level_alone_has_is_refused_elsewhere_and_can_be_removed(field: str) -> None:
    store = MemoryStore()
    store.set(Level.TOPIC, "t", field, 5, "ann")
    with pytest.raises(PolicyRefusedError) as refused:
        change_beside(store, FIELDS, Level.TOPIC, "t", {field: 6}, "ann")

    assert (
        str(refused.value) == f"{field}: applies to a whole broker, not to one topic; set it for the broker"
    )
    change_beside(store, FIELDS, Level.TOPIC, "t", {field: None}, "ann")
    change_beside(store, FIELDS, Level.BROKER, "", {field: 6}, "ann")
    assert [each.level for each in store.layers()[1]] == [Level.BROKER]


def test_a_store_that_cannot_be_written_is_reported() -> None:
    class Broken(MemoryStore):
        def change(
            self, edits: Sequence[Edit], author: Author, expected: int | None = None, policies: str = ""
        ) -> int:
            raise StoreError("store is locked", "try again")

    with pytest.raises(PolicyUnavailableError, match="store is locked: try again"):
        change_beside(Broken(), FIELDS, Level.TOPIC, "t", {"max_message_size": 1}, "ann")
