"""The messages that the gateway reads and writes are Danube's."""

from sluicegate_danube.admin.topics_pb2 import SubscriptionListResponse, TopicRequest


def test_messages_encode_as_danubes_own() -> None:
    """TopicRequest.name and SubscriptionListResponse.subscriptions are both field 1 in DanubeAdmin.proto."""
    assert TopicRequest(name="/d/t").SerializeToString() == b"\x0a\x04/d/t"
    assert SubscriptionListResponse(subscriptions=["a", "b"]).SerializeToString() == b"\x0a\x01a\x0a\x01b"
