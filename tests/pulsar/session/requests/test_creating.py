"""Topics that clients create by asking for their partitions."""

import pytest
from tests.pulsar.session.messages import TOPIC, frame
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb

SUCCESS, FAILED = pb.PartitionedMetadataResponse.SUCCESS, pb.PartitionedMetadataResponse.FAILED
REFUSED = (
    f"Topic {TOPIC} may not be created. Use an existing one, or set policy allow_topic_creation to true."
)


def ask(request_id: int = 7, topic: str = TOPIC, **fields: object) -> bytes:
    """A client asks how many partitions a topic has."""
    return frame("partitioned_metadata", topic=topic, request_id=request_id, **fields)


def found(partitions: int, request_id: int = 7) -> bytes:
    """The broker knows the topic."""
    fields = {"request_id": request_id, "response": SUCCESS, "partitions": partitions}
    return frame("partitioned_metadata_response", **fields)


def failed(error: "pb.ServerError" = pb.TOPIC_NOT_FOUND, request_id: int = 7) -> bytes:
    """The broker does not answer the question."""
    fields = {"request_id": request_id, "response": FAILED, "error": error, "message": "of the broker"}
    return frame("partitioned_metadata_response", **fields)


def asked(wire: Wire) -> tuple[str, bool]:
    """What the broker is asked."""
    [command] = wire.forwarded()
    request = command.partitioned_metadata
    assert request.request_id == 7
    return request.topic, request.metadata_auto_creation_enabled


def test_a_topic_that_may_not_be_created_is_asked_for_and_not_created() -> None:
    wire = Wire(Bench(allow_topic_creation=False))
    wire.client_sends(ask())
    assert asked(wire) == (TOPIC, False)
    wire.broker_sends(failed())
    [answer] = wire.answered()
    response = answer.partitioned_metadata_response
    assert (response.request_id, response.response) == (7, FAILED)
    assert response.error == pb.NOT_ALLOWED_ERROR
    assert response.message.partition(" [")[0] == REFUSED
    assert wire.forwarded() == []


@pytest.mark.parametrize(
    "answer", [found(0), found(4), failed(pb.AUTHORIZATION_ERROR), failed(pb.METADATA_ERROR)]
)
def test_other_answers_of_the_broker_pass(answer: bytes) -> None:
    wire = Wire(Bench(allow_topic_creation=False))
    wire.client_sends(ask())
    assert asked(wire) == (TOPIC, False)
    wire.broker_sends(answer)
    assert wire.sent_down() == [answer]


def test_a_missing_topic_that_may_be_created_is_asked_for_once_more() -> None:
    wire = Wire(Bench(max_partitions=5))  # how many it will have is not known
    wire.client_sends(ask())
    assert asked(wire) == (TOPIC, False)
    wire.broker_sends(failed())
    assert wire.sent_down() == []
    assert asked(wire) == (TOPIC, True)
    wire.broker_sends(answer := found(3))
    assert wire.sent_down() == [answer]


@pytest.mark.parametrize(
    ("bench", "question"),
    [
        (Bench(), ask()),
        (Bench(allow_topic_creation=False), ask(metadata_auto_creation_enabled=False)),
        (Bench(allow_topic_creation=False), ask(topic="a/b")),
    ],
)
def test_what_creates_nothing_or_is_not_limited_passes(bench: Bench, question: bytes) -> None:
    wire = Wire(bench)
    wire.client_sends(question)
    assert wire.sent_up() == [question]
    wire.broker_sends(answer := failed())
    assert wire.sent_down() == [answer]


def test_exempt_principals_create_what_they_like() -> None:
    bench = Bench(allow_topic_creation=False)
    wire = Wire(bench)
    wire.session.connection.client.exempt = True
    wire.client_sends(ask())
    assert asked(wire) == (TOPIC, True)
