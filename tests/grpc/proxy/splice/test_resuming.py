"""Producers that their broker has forgotten are recreated; their clients keep their ids."""

import gzip
from dataclasses import replace
from typing import Any

import pytest
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import METHODS, PUBLISH, TOPIC, Talk, front

from sluicegate.model import Method, Role
from sluicegate.model.methods import Path
from sluicegate_grpc.proxy.splice.connection_limits import Limits
from sluicegate_grpc.proxy.splice.resuming import Aliases, Resume, Resumed
from sluicegate_grpc.semantics.status import UNAVAILABLE, Refusal

ALIVE = "/t.Broker/Alive"
NEW = 2**60


def renamed(message: bytes, path: Path, producer: int) -> bytes:
    if b"unreadable" in message:
        raise ValueError
    was = service.field(path[0], 7)
    assert was in message
    return message.replace(was, service.field(path[0], producer), 1)


class Bench(Talk):
    def __init__(self, **policies: Any) -> None:
        shared = front(**policies)
        alive = Method(Role.KEEP_ALIVE, attachment=(2,))
        named = Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,), name=(4,))
        shared.rules.methods = replace(METHODS, methods={**METHODS.methods, ALIVE: alive, PUBLISH: named})
        shared.resume_producers(Aliases(renamed))
        super().__init__(shared)

    def front_answers(self, answer: object) -> None:
        """What has become of the producer."""
        self.wire.front_answers(answer)
        self.wire.settle()

    def resumed(self) -> None:
        """A producer by the id 7 that the broker knows by another one."""
        self.attach()
        stream = self.publish()
        self.answer(stream, status=5)
        self.front_answers(Resumed(NEW))

    def server(self, stream: int) -> bytes:
        """What the broker got."""
        return bytes(self.wire.server.seen[stream].data)


@pytest.mark.seed("S3-013")
def test_the_client_is_asked_to_retry_and_its_id_is_rewritten() -> None:
    of = Bench()
    of.attach()
    stream = of.call(PUBLISH, service.publish(TOPIC, 7, b"x"), ("authorization", "Bearer secret"))
    of.answer(stream, status=5)
    assert not of.client(stream).is_over
    assert of.wire.asked == [Resume(7, TOPIC, "p", "Bearer secret")]
    of.front_answers(Resumed(NEW))
    assert (of.client(stream).status, of.producers()) == ("14", 1)
    again = of.publish()
    assert of.server(again) == service.publish(TOPIC, NEW, b"x" * 10)
    of.answer(again)
    assert of.client(again).status == "0"
    of.hang_up()


@pytest.mark.parametrize("way", ["one frame", "pieces", "compressed"])
def test_messages_of_any_shape_get_the_new_id(way: str) -> None:
    of = Bench()
    of.resumed()
    data, expected = (service.publish(TOPIC, called, b"x" * 100_000) for called in (7, NEW))
    if way == "compressed":
        stream = of.call(PUBLISH, service.framed(gzip.compress(data[5:]), 1), ("grpc-encoding", "gzip"))
    else:
        stream = of.call(PUBLISH, b"", end=False)
        cut = len(data) if way == "one frame" else 1_000
        of.send(stream, data[:cut])
        of.send(stream, data[cut:], end=True)
    for _ in range(20):
        of.take(of.wire.server)
    assert of.server(stream) == expected
    of.answer(stream)
    assert of.client(stream).status == "0"
    of.hang_up()


def test_windows_hold_although_messages_grow() -> None:
    of = Bench()
    of.resumed()
    for _ in range(300):
        stream = of.publish(1_000)
        of.take(of.wire.server)
        of.answer(stream)
        assert of.client(stream).status == "0"
    of.hang_up()


def test_health_checks_get_the_new_id() -> None:
    of = Bench()
    of.resumed()
    stream = of.call(ALIVE, service.message((1, 0), (2, 7)))
    assert of.server(stream) == service.message((1, 0), (2, NEW))


def test_other_producers_keep_their_ids() -> None:
    of = Bench()
    of.resumed()
    of.attach("q", 8)
    stream = of.publish(producer=8)
    assert of.server(stream) == service.publish(TOPIC, 8, b"x" * 10)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Resumed(), "5"),
        (Resumed(refusal=Refusal(UNAVAILABLE, "no owner yet", b"")), "14"),
        (TimeoutError(), "14"),
    ],
)
def test_a_failed_resumption_is_reported_to_the_client(answer: object, status: str) -> None:
    of = Bench()
    of.attach()
    stream = of.publish()
    of.answer(stream, status=5)
    of.front_answers(answer)
    assert of.client(stream).status == status
    assert not of.shared.aliases
    of.hang_up()


def test_other_responses_pass_at_once() -> None:
    of = Bench()
    of.attach()
    for status in (0, 3, 8, 14):
        stream = of.publish()
        of.answer(stream, status=status)
        assert of.client(stream).status == str(status)
    assert not of.wire.asked


def test_a_client_that_cancels_meanwhile_gets_no_response() -> None:
    of = Bench()
    of.attach()
    stream = of.publish()
    of.answer(stream, status=5)
    of.wire.client.h2.reset_stream(stream)
    of.wire.settle()
    of.front_answers(Resumed(NEW))
    assert of.client(stream).status == ""
    of.hang_up()


def test_a_connection_may_close_while_a_producer_is_resumed() -> None:
    of = Bench()
    of.attach()
    of.answer(of.publish(), status=5)
    of.hang_up()


def test_a_producer_known_by_its_claim_is_created_under_that_name() -> None:
    """As after a restart of the gateway."""
    of = Bench(max_producers_per_topic=1)
    stream = of.call(PUBLISH, service.message((1, TOPIC), (2, 7), (3, b"x"), (4, "p")))
    of.answer(stream, status=5)
    assert of.wire.asked == [Resume(7, TOPIC, "p", "")]
    of.front_answers(Resumed(NEW))
    assert (of.client(stream).status, of.producers()) == ("14", 1)
    assert not of.shared.calls.attachments.unconfirmed
    assert not of.session._responses.watchers
    of.hang_up()


def test_a_claim_is_dropped_if_its_client_cancels_meanwhile() -> None:
    of = Bench(max_producers_per_topic=1)
    stream = of.call(PUBLISH, service.message((1, TOPIC), (2, 7), (3, b"x"), (4, "p")))
    of.answer(stream, status=5)
    assert of.producers() == 1
    of.wire.client.h2.reset_stream(stream)
    of.wire.settle()
    assert of.producers() == 0
    of.hang_up()


def test_the_new_id_is_one_of_the_same_producer() -> None:
    of = Bench(max_producers_per_topic=1)
    of.resumed()
    stream = of.publish(producer=NEW)
    assert of.server(stream) == service.publish(TOPIC, NEW, b"x" * 10)
    of.answer(stream)
    assert of.producers() == 1
    of.hang_up()


def test_a_message_that_cannot_be_rewritten_is_refused() -> None:
    of = Bench()
    of.resumed()
    stream = of.call(PUBLISH, service.publish(TOPIC, 7, b"unreadable"))
    assert of.refused(stream)[0] == "3"


def test_a_message_with_a_content_length_keeps_its_id() -> None:
    of = Bench()
    of.resumed()
    data = service.publish(TOPIC, 7, b"x")
    stream = of.call(PUBLISH, data, ("content-length", str(len(data))))
    assert of.server(stream) == data


def test_the_number_of_kept_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate_grpc.proxy.splice.resuming._MAX_ALIASES", 3)
    aliases = Aliases(renamed)
    for producer in (1, 2, 3, 1, 4):
        aliases.add(producer, producer + 100)
    assert aliases == {3: 103, 1: 101, 4: 104}
    aliases.add(1, 1)  # its broker gave it its own id again
    assert aliases == {3: 103, 4: 104}
    assert Limits().max_streams  # bounds what waits at once
