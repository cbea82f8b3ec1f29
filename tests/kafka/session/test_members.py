"""A Fetch belongs to the groups that the same client joined."""

from sluicegate_kafka.connection import Connection
from sluicegate_kafka.members import Members


def connection(client_id: str, host: str = "10.0.0.1") -> Connection:
    """One connection of a client."""
    made = Connection(f"{host}:5000")
    made.principal, made.client_id = "User:a", client_id
    return made


def test_a_client_in_one_group_fetches_for_it() -> None:
    members = Members()
    coordinator = connection("app")
    members.joined(coordinator, "g", frozenset({"t"}))
    assert members.group_of(connection("app").identity, "t") == "g"
    assert members.group_of(connection("other").identity, "t") == ""
    assert members.group_of(connection("app", host="10.0.0.2").identity, "t") == ""


def test_a_client_in_two_groups_fetches_for_the_one_that_has_the_topic() -> None:
    members = Members()
    members.joined(connection("app"), "orders", frozenset({"o"}))
    members.joined(connection("app"), "billing", frozenset({"b"}))
    assert members.group_of(connection("app").identity, "o") == "orders"
    assert members.group_of(connection("app").identity, "b") == "billing"
    assert members.group_of(connection("app").identity, "x") is None


def test_what_ended_is_forgotten_even_after_the_client_id_changed() -> None:
    members = Members()
    coordinator = connection("app")
    members.joined(coordinator, "g", frozenset({"t"}))
    coordinator.client_id = "renamed"
    members.forget(coordinator)
    assert members.group_of(connection("app").identity, "t") == ""


def test_leaving_one_group_keeps_the_other() -> None:
    members = Members()
    coordinator = connection("app")
    members.joined(coordinator, "a", frozenset({"t"}))
    members.joined(coordinator, "b", frozenset({"u"}))
    members.left(coordinator, "a")
    assert members.group_of(coordinator.identity, "t") == "b"
