"""Learns from Produce responses when records arrived, for topics with a fixed delay."""

from collections.abc import Iterable

from sluicegate_kafka.codec.produce_requests import ProduceTopic
from sluicegate_kafka.codec.produce_responses import appended
from sluicegate_kafka.codec.records import measure_records
from sluicegate_kafka.session.shared.shared import Shared


class Appends:
    """The batches of one forwarded Produce request whose arrival matters.

    :param shared: where arrivals are kept.
    :param asked_ms: when the request is forwarded, in ms of the wall clock.
    """

    __slots__ = ("_asked_ms", "_batches", "_shared")

    def __init__(self, shared: Shared, asked_ms: int) -> None:
        self._shared = shared
        self._asked_ms = asked_ms
        self._batches: dict[tuple[str, int], tuple[int, int, bool]] = {}
        """Topic and partition -> records, the topic's delay in ms, and whether they may be stored already."""

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
                self._shared.counts["produce_back_dated"] += 1

    def learn(self, frame: bytes, version: int, now_ns: int) -> None:
        """Read the offsets that the broker assigned.

        :param frame: the response without its length.
        :param version: of the request.
        :param now_ns: monotonic time.
        """
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


def awaited_appends(shared: Shared, topics: Iterable[ProduceTopic], now_ns: int) -> Appends | None:
    """The batches whose arrival the response shows; None if no topic has a fixed delay.

    :param topics: what is forwarded.
    :param now_ns: monotonic time.
    """
    appends: Appends | None = None
    if not shared.reads_fetches:
        return appends
    for topic in topics:
        rule = shared.gate(topic.name, False, now_ns).delay
        if rule is not None:
            if appends is None:
                appends = Appends(shared, shared.wall_ms(now_ns))
            appends.add(topic, rule.fixed_ms, rule.max_behind_ms)
    return appends
