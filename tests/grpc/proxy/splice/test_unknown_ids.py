"""Publishes by ids that this gateway has not given: identified by the name in the message."""

import gzip
from dataclasses import replace

import pytest
from tests.bench import SECOND
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import METHODS, PUBLISH, TOPIC, Talk, front

from sluicegate.model import Method, Role

NAMED = Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,), name=(4,))


def talk(most: int = 1) -> Talk:
    shared = front(max_producers_per_topic=most)
    shared.rules.methods = replace(METHODS, methods={**METHODS.methods, PUBLISH: NAMED})
    return Talk(shared)


def publish(of: Talk, way: str, called: int = 7, name: str = "p", size: int = 2_000) -> int:
    data = service.message((1, TOPIC), (2, called), (3, b"x" * size), (4, name))
    if way == "compressed":
        data = service.framed(gzip.compress(data[5:]), compressed=1)
        return of.call(PUBLISH, data, ("grpc-encoding", "gzip"))
    if way == "one frame":
        return of.call(PUBLISH, data)
    stream = of.call(PUBLISH, data[:1_000], end=False)
    of.send(stream, data[1_000:], end=True)
    return stream


@pytest.mark.parametrize("way", ["one frame", "pieces", "compressed"])
def test_an_unknown_id_counts_as_the_named_producer(way: str) -> None:
    of = talk()
    stream = publish(of, way)
    assert of.producers() == 1
    of.answer(stream)
    assert of.client(stream).status == "0"
    of.attach("p", 7)
    assert of.producers() == 1
    of.answer(publish(of, way))
    assert of.refused(of.attach("q", 8))[0] == "8"
    of.hang_up()
    assert of.producers() == 0


@pytest.mark.parametrize("way", ["one frame", "pieces", "compressed"])
def test_a_producer_unknown_to_the_broker_frees_its_place_at_once(way: str) -> None:
    of = talk()
    for called in range(100, 110):
        stream = publish(of, way, called, name="" if called % 2 else "p")
        of.answer(stream, status=5)
        assert (of.client(stream).status, of.producers()) == ("5", 0)
    first, second = publish(of, way, 100), publish(of, way, 100)  # both under way
    of.answer(first, status=5)
    assert of.producers() == 0
    of.answer(second, status=5)
    of.attach("p", 7)
    assert of.producers() == 1
    of.hang_up()


@pytest.mark.parametrize("way", ["one frame", "pieces"])
def test_a_refused_producer_frees_its_place_and_a_held_one_is_confirmed_later(way: str) -> None:
    of = talk()
    of.shared.services.set_topic(  # type: ignore[attr-defined]
        TOPIC,
        **{
            "max_producers_per_topic": 1,
            "max_message_size": 3_000,
            "max_publish_rate": 1,
            "burst_seconds": 1,
            "on_limit.max_publish_rate": "delay",
        },
    )
    assert of.refused(publish(of, "one frame", 100, size=4_000))[0] == "3"
    assert of.producers() == 0
    of.answer(publish(of, way))
    waiting = publish(of, way, 8)  # by another id: the broker may have given another
    assert waiting not in of.wire.server.seen
    of.wire.pass_time(SECOND)
    of.wire.settle()
    of.answer(waiting, status=5)
    assert of.producers() == 1
    of.hang_up()
    assert of.producers() == 0


def test_a_held_message_that_new_policies_refuse_leaves_no_producer_behind() -> None:
    of = talk(most=2)
    rate = {"max_publish_rate": 1, "burst_seconds": 1, "on_limit.max_publish_rate": "delay"}
    of.shared.services.set_topic(TOPIC, **rate)  # type: ignore[attr-defined]
    of.attach("q", 7)
    of.answer(publish(of, "one frame", 7, name="q"))
    waiting = publish(of, "one frame", 8, name="p")
    assert (of.producers(), of.wire.server.seen.get(waiting)) == (2, None)
    of.shared.services.set_topic(TOPIC, max_message_size=1_000, **rate)  # type: ignore[attr-defined]
    of.wire.pass_time(SECOND)
    of.wire.settle()
    assert of.refused(waiting)[0] == "3"
    assert of.producers() == 1
    of.hang_up()


def test_a_message_waits_until_its_name_is_read() -> None:
    of = talk()
    data = service.message((1, TOPIC), (2, 7), (3, b"x" * 10_000), (4, "p"))
    stream = of.call(PUBLISH, data[:5_000], end=False)
    assert (of.producers(), of.wire.server.seen.get(stream)) == (0, None)
    of.send(stream, data[5_000:], end=True)
    of.answer(stream)
    again = of.call(PUBLISH, data[:5_000], end=False)  # its id is known now: the rest passes as it comes
    assert again in of.wire.server.seen
    of.send(again, data[5_000:], end=True)
    of.answer(again)
    assert of.producers() == 1
    of.hang_up()
