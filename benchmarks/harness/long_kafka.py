"""Kafka requests and responses that take long to walk, each as a case of the bounded-work benchmark."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from benchmarks.harness import kafka_long_bytes as kafka
from benchmarks.harness.room_sessions import kafka_session
from sluicegate.model import PolicyValue

Case: TypeAlias = Callable[[int], list[float]]
"""`(scale)`, by which the work is divided -> CPU time of each turn in ms."""
_TOPICS = 10_000


def _topics(scale: int) -> list[str]:
    return [f"topic-{number}" for number in range(_TOPICS // scale)]


def _request(policies: Mapping[str, PolicyValue], write: Callable[[int], bytes]) -> Case:
    """A request of a new client."""

    def case(scale: int) -> list[float]:
        timed = kafka_session(policies)
        timed.client(write(scale))
        return timed.slices_ms

    return case


def _response(
    policies: Mapping[str, PolicyValue], asks: Callable[[int], list[bytes]], write: Callable[[int], bytes]
) -> Case:
    """The response to the last of some requests; those before it are answered with nothing to see."""

    def case(scale: int) -> list[float]:
        timed = kafka_session(policies)
        *before, last = asks(scale)
        for asked, answer in zip(before[::2], before[1::2], strict=True):
            timed.client(asked)
            timed.broker(answer)
        timed.client(last)
        timed.forget()
        timed.broker(write(scale))
        return timed.slices_ms

    return case


def _records(mib: int) -> Case:
    def case(scale: int) -> list[float]:
        count = mib * 2**20 // len(kafka.TINY) // scale
        timed = kafka_session({"max_message_size": 10 * 2**20 // scale})
        timed.client(kafka.produce({"t": {0: kafka.batch(kafka.TINY * count, count)}}))
        return timed.slices_ms

    return case


_ONE = kafka.batch(kafka.TINY, 1)
_CONSUMERS: Mapping[str, PolicyValue] = {"max_consumers_per_topic": 10}
_DISPATCH: Mapping[str, PolicyValue] = {"max_dispatch_rate": 10**9}

CASES: Mapping[str, Case] = {
    "kafka_records_12mib": _records(12),
    "kafka_records_90mib": _records(90),
    "kafka_10k_topics": _request(
        {"max_publish_rate": 10**9, "max_producers_per_topic": 10},
        lambda scale: kafka.produce({each: {0: _ONE} for each in _topics(scale)}),
    ),
    "kafka_19k_partitions": _request(
        {"max_publish_rate": 10**9},
        lambda scale: kafka.produce({"t": dict.fromkeys(range(19_000 // scale), _ONE)}),
    ),
    "kafka_join_10k_topics": _request(_CONSUMERS, lambda scale: kafka.join("m", _topics(scale))),
    "kafka_heartbeat_10k_topics": _request(_CONSUMERS, lambda scale: kafka.heartbeat("m", _topics(scale))),
    "kafka_commit_100k": _request(
        {"max_subscriptions_per_topic": 10}, lambda scale: kafka.commit(100_000 // scale)
    ),
    "kafka_fetch_10k_topics": _request(
        _CONSUMERS, lambda scale: kafka.fetch(dict.fromkeys(_topics(scale), range(1)))
    ),
    "kafka_fetch_100k_partitions": _request(
        _DISPATCH, lambda scale: kafka.fetch({"t": range(100_000 // scale)})
    ),
    "kafka_joined_10k_topics": _response(
        _CONSUMERS, lambda scale: [kafka.join("", _topics(scale))], lambda scale: kafka.joined("m-1")
    ),
    "kafka_synced_10k_topics": _response(
        _CONSUMERS,
        lambda scale: [kafka.join("m", _topics(scale)), kafka.joined("m"), kafka.sync("m")],
        lambda scale: kafka.synced(_topics(scale)),
    ),
    "kafka_committed_100k": _response(
        {"max_subscriptions_per_topic": 10},
        lambda scale: [kafka.commit(100_000 // scale)],
        lambda scale: kafka.committed(100_000 // scale),
    ),
    "kafka_fetched_10k_topics": _response(
        _DISPATCH,
        lambda scale: [kafka.fetch(dict.fromkeys(_topics(scale), range(1)))],
        lambda scale: kafka.fetched({each: {0: _ONE} for each in _topics(scale)}),
    ),
    "kafka_fetched_10k_cut": _response(
        {"max_dispatch_rate": 1},
        lambda scale: [kafka.fetch({"t": range(_TOPICS // scale)})],
        lambda scale: kafka.fetched({"t": dict.fromkeys(range(_TOPICS // scale), _ONE)}),
    ),
    "kafka_fetched_20k_batches": _response(
        _DISPATCH,
        lambda scale: [kafka.fetch({"t": range(1)})],
        lambda scale: kafka.fetched({"t": {0: _ONE * (20_000 // scale)}}),
    ),
    "kafka_metadata_10k_topics": _response(
        _DISPATCH, lambda scale: [kafka.metadata()], lambda scale: kafka.described(_topics(scale))
    ),
}
"""By name in the results."""
