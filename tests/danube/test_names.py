import pytest

from sluicegate.model import TopicName
from sluicegate_danube.names import topic_name


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("/default/orders", TopicName("/default/orders", "default")),
        ("/default/orders-part-0", TopicName("/default/orders-part-0", "default", ("/default/orders",))),
        ("/a/b-part-1-part-12", TopicName("/a/b-part-1-part-12", "a", ("/a/b-part-1",))),
        ("/default/-part-1", TopicName("/default/-part-1", "default")),
        ("/default/orders-part-x", TopicName("/default/orders-part-x", "default")),
    ],
)
def test_namespace_and_partitioned_topic_are_parsed_from_the_name(topic: str, name: TopicName) -> None:
    assert topic_name(topic) == name


@pytest.mark.parametrize("topic", ["", "orders", "/orders", "default/orders", "//orders", "/a/b/c", "/a/"])
def test_an_invalid_topic_name_has_no_namespace(topic: str) -> None:
    assert topic_name(topic) == TopicName(topic, "")
