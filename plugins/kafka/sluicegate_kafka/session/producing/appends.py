"""Learns from Produce responses: when records arrived where delivery is delayed, whom the broker refuses."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from sluicegate_kafka.codec.produce_requests import ProduceTopic
from sluicegate_kafka.codec.produce_responses import appended, unauthorized
from sluicegate_kafka.codec.records import measure_records
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.shared.shared import Shared

Unheard: TypeAlias = dict[tuple[str, int], Callable[[int], None]]
"""Producers that the broker has not answered yet, by topic and id -> releases one, at a monotonic time."""


class Appends:
    """The batches of one forwarded Produce request whose arrival or first answer matters.

    :param shared: where arrivals are kept.
    :param asked_ms: when the request is forwarded, in ms of the wall clock.
    """

    __slots__ = ("_asked_ms", "_batches", "_first", "_shared")

    def __init__(self, shared: Shared, asked_ms: int) -> None:
        self._shared = shared
        self._asked_ms = asked_ms
        self._batches: dict[tuple[str, int], tuple[int, int, bool]] = {}
        """Topic and partition -> records, the topic's delay in ms, and whether they may be stored already."""

        self._first: list[tuple[str, Callable[[int], None]]] = []
        """Topics, and what releases a producer there that the broker answers for the first time."""

    def first(self, topic: str, release: Callable[[int], None]) -> None:
        """Record that the response is the first one to a producer.

        :param release: called if the broker does not let it publish.
        """
        self._first.append((topic, release))

    def add(self, topic: ProduceTopic, delay_ms: int, behind_ms: int) -> None:
        """Record a request's batches of a topic.

        :param delay_ms: the topic's fixed delay.
        :param behind_ms: how long before its arrival a record may be stamped.
        """
        is_idempotent = max(topic.producer_id, *topic.more_producers, -1) >= 0
        for partition, span in zip(topic.partitions, topic.records, strict=True):
            records, _, stamped_ms, _ = measure_records(topic.frame, *span)
            self._batches[topic.name, partition] = records, delay_ms, is_idempotent
            if stamped_ms < self._asked_ms - behind_ms:
                self._shared.count(KafkaEvent.PRODUCE_BACK_DATED)

    def learn(self, frame: bytes, version: int, now_ns: int) -> None:
        """Read the offsets that the broker assigned, and whom it refuses.

        :param frame: the response without its length.
        :param version: of the request.
        :param now_ns: monotonic time.
        """
        if self._first:
            refused = unauthorized(frame, version)
            for name, release in self._first:
                if name in refused:
                    release(now_ns)
        if not self._batches:
            return
        now_ms = self._shared.wall_ms(now_ns)
        only = next(iter(self._batches)) if len(self._batches) == 1 else None
        arrivals = self._shared.arrivals
        for topic, partition, offset in appended(frame, version, only):
            records, delay_ms, is_idempotent = self._batches.get((topic, partition), (0, 0, False))
            at, end = (topic, partition), offset + records
            # A repeated batch is answered with the offset that it had the first time: it tells nothing new,
            # nor that the topic was recreated.
            if records and not (is_idempotent and arrivals.covers(at, end)):
                arrivals.note(at, offset, end, self._asked_ms, now_ms, delay_ms)


def awaited_appends(
    shared: Shared, topics: Iterable[ProduceTopic], unheard: Unheard, now_ns: int
) -> Appends | None:
    """What the response shows; None if there is nothing to learn.

    :param topics: what is forwarded.
    :param unheard: loses the producers of these topics.
    :param now_ns: monotonic time.
    """
    appends: Appends | None = None
    if not (unheard or shared.reads_fetches):
        return appends
    for topic in topics:
        rule = shared.gate(topic.name, False, now_ns).delay if shared.reads_fetches else None
        if rule is None and not unheard:
            continue
        keys = [(topic.name, each) for each in (topic.producer_id, *topic.more_producers)]
        released = [unheard.pop(key) for key in keys if key in unheard]
        if rule is None and not released:
            continue
        appends = appends or Appends(shared, shared.wall_ms(now_ns))
        if rule is not None:
            appends.add(topic, rule.fixed_ms, rule.max_behind_ms)
        for release in released:
            appends.first(topic.name, release)
    return appends
