import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.model import TopicName
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.names import topic_name

FULL = "persistent://public/default/orders"


@pytest.mark.parametrize("name", ["orders", "public/default/orders", FULL])
def test_all_forms_of_a_name_are_one_topic(name: str) -> None:
    assert topic_name(name) == TopicName(FULL, "public/default", ("public/default/orders", "orders"))


def test_policies_of_a_short_name_apply_in_both_domains() -> None:
    others = ("public/default/orders", "orders")
    assert topic_name("non-persistent://public/default/orders").others == others
    assert topic_name("orders").others == others


def test_policies_of_a_full_name_apply_in_its_domain() -> None:
    assert (
        "persistent://public/default/orders" not in topic_name("non-persistent://public/default/orders").all
    )


def test_policies_of_a_partitioned_topic_apply_to_its_partitions() -> None:
    partition = topic_name("persistent://sales/eu/orders-partition-12")
    assert partition.namespace == "sales/eu"
    assert partition.all == (
        "persistent://sales/eu/orders-partition-12",
        "sales/eu/orders-partition-12",
        "persistent://sales/eu/orders",
        "sales/eu/orders",
    )


def test_v1_names_have_a_cluster_in_their_namespace() -> None:
    name = topic_name("persistent://sales/us-west/eu/orders")
    assert (name.full, name.namespace) == ("persistent://sales/us-west/eu/orders", "sales/us-west/eu")


@pytest.mark.parametrize(
    "name",
    ["", "persistent://", "persistent://a/b", "http://a/b/c", "a/b", "/a/b", "persistent://a//c", "x" * 1025],
)
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(ProtocolError, match="topic name"):
        topic_name(name)


@given(st.text(max_size=40))
def test_parsing_a_parsed_name_returns_it_unchanged(text: str) -> None:
    try:
        name = topic_name(text)
    except ProtocolError:
        return
    assert topic_name(name.full).full == name.full
