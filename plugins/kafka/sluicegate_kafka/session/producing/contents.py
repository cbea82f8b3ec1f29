"""What policies want to know of the records of requests: sizes and messages; and other headers for them."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from sluicegate.model import HeaderChange, Message, Part
from sluicegate.model.message import message_of
from sluicegate.sessions.work import Turn, Work
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.header_changes import change_headers, rebuilt
from sluicegate_kafka.codec.message_reading import read_messages
from sluicegate_kafka.codec.produce_requests import Inspected, ProduceRequest, ProduceTopic
from sluicegate_kafka.codec.record_walk import largest_message
from sluicegate_kafka.codec.records import BATCH_OVERHEAD, COMPRESSION_MASK, Batch, iter_batches
from sluicegate_kafka.codec.slices import at_once
from sluicegate_kafka.session.producing.inspecting import Inspection, Measuring
from sluicegate_kafka.session.requests.connection import Connection, check_topics
from sluicegate_kafka.session.shared.shared import Shared


class Contents(NamedTuple):
    """The messages of one topic, where policies read them."""

    messages: Sequence[Message]
    problem: str
    """Why they cannot be read; empty if they can."""


NOT_READ = Contents((), "their policies have changed meanwhile; send them again")
SHORT_BYTES = 16 * 1024
"""Bytes of a request whose records are walked at once, if need be; the default `batch.size` of clients."""
MAX_MESSAGES = 20_000
"""Messages of one topic in a request that are read: twice as many as librdkafka puts into a batch."""
_FEW_MESSAGES = 50
"""Messages that are read at once: 0.1 ms."""
_MESSAGE_BYTES = 300
"""Memory of a message that is read, besides its key and value, roughly."""
_ENDLESS = 2**62
"""More than any walk over records costs."""


class Reading:
    """Reads the records of one connection's requests, as far as policies ask for it.

    :param shared: the front's state.
    :param connection: where the requests come from.
    """

    __slots__ = ("_connection", "_shared", "measuring")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self.measuring = Measuring(shared.budget)

    def inspect(self, request: ProduceRequest, turn: Turn) -> Work[None]:
        """Measure compressed batches, where policies say so.

        :raises NotNowError: if there is no memory or time for that.
        """
        if self._shared.policed.inspects:
            yield from self._inspection(turn).of(request)

    def read_at_once(self, topics: list[ProduceTopic]) -> bool:
        """Read messages where policies want them, in this turn.

        :return: False if that takes slices, or if a gate is not compiled yet: it says whether any are read.
        """
        gates = self._shared.gates
        live = gates.exempt if self._connection.exempt else gates.live
        for index, topic in enumerate(topics):
            gate = live.get(topic.name)
            if gate is None:
                return False
            if gate.reads:
                contents = self.few(topic.frame, topic.records, topic.messages, gate.reads)
                if contents is None:
                    return False
                topics[index] = topic._replace(contents=contents)
        return True

    def few(
        self, frame: bytes, records: Iterable[tuple[int, int]], count: int, parts: Collection[Part]
    ) -> Contents | None:
        """Parts of a few messages; None if it takes slices to read them: they are many, or compressed.

        What that costs is left to later requests to wait for.

        :param frame: what holds them, in a request of at most `SHORT_BYTES`.
        :param records: offsets of their record sets.
        :param count: how many they are.
        """
        if count > _FEW_MESSAGES or self.measuring.slice.left <= 0:
            return None
        messages: list[Message] = []
        current = self.measuring.slice
        current.left += _ENDLESS
        try:
            for batch in _batches(frame, records):
                if batch.attributes & COMPRESSION_MASK:
                    return None
                begin, end = batch.offset + BATCH_OVERHEAD, batch.offset + batch.size
                claimed = batch.record_count
                contents = at_once(read_messages(frame, begin, end, claimed, current, parts))
                messages += map(message_of, contents)
        except ProtocolError as error:
            return Contents((), error.reason)
        finally:
            current.left -= _ENDLESS
        return Contents(messages, "")

    def read(self, topic: ProduceTopic, turn: Turn) -> Work[ProduceTopic]:
        """A topic's part of a request, with what its policies ask for: its largest message, its messages.

        The memory that messages take stays taken until `measuring` is freed.

        :raises NotNowError: if there is no memory or time for that.
        """
        gate = self._shared.gate(topic.name, self._connection.exempt, turn.now_ns)
        if gate.reads:
            contents = yield from _read_contents(self._inspection(turn), topic, gate.reads)
            topic = topic._replace(contents=contents)
        policies = gate.policies_for(self._connection.principal, self._connection.client)
        limit = int(policies.number("max_message_size"))
        # A batch over the limit may hold many messages, none of which is.
        if topic.inspected is not None or not 0 < limit < topic.largest_batch:
            return topic
        largest = yield from largest_message(topic.frame, topic.records, limit, self.measuring.slice)
        return topic._replace(inspected=Inspected(largest, ""))

    def measured_at_once(self, topic: ProduceTopic, limit: int) -> int:
        """Bytes of the largest message; what measuring costs is left to later requests to wait for."""
        current = self.measuring.slice
        current.left += _ENDLESS
        largest = at_once(largest_message(topic.frame, topic.records, limit, current))
        current.left -= _ENDLESS
        return largest

    def changed(self, topic: ProduceTopic, change: HeaderChange, turn: Turn) -> Work[list[bytes]]:
        """The batches of a topic with other headers, one record set for each partition.

        :raises ProtocolError: if they cannot be read.
        :raises NotNowError: if there is no memory or time for that.
        """
        inspection, measuring = self._inspection(turn), self.measuring
        before = measuring.nbytes
        changed: list[bytes] = []
        try:
            for span in topic.records:
                record_set = bytearray()
                for batch in iter_batches(topic.frame, *span):
                    buffer, begin, stop = yield from inspection.plain(topic.frame, batch)
                    measuring.need(measuring.nbytes + 2 * (stop - begin))
                    records = yield from change_headers(buffer, begin, stop, change.apply, measuring.slice)
                    record_set += rebuilt(topic.frame, batch, records)
                changed.append(bytes(record_set))
        finally:
            measuring.free(before)
        return changed

    def _inspection(self, turn: Turn) -> Inspection:
        return Inspection(self._shared, self._connection, self.measuring, turn)


def _read_contents(inspection: Inspection, topic: ProduceTopic, parts: Collection[Part]) -> Work[Contents]:
    """Read these parts of all messages of a topic."""
    if topic.messages > MAX_MESSAGES:
        return Contents((), f"{topic.messages} in one request, of which at most {MAX_MESSAGES} are read")
    messages: list[Message] = []
    measuring = inspection.measuring
    try:
        for batch in _batches(topic.frame, topic.records):
            buffer, begin, stop = yield from inspection.plain(topic.frame, batch)
            measuring.need(measuring.nbytes + stop - begin + _MESSAGE_BYTES * batch.record_count)
            count, current = batch.record_count, measuring.slice
            contents = yield from read_messages(buffer, begin, stop, count, current, parts)
            messages += map(message_of, contents)
    except ProtocolError as error:
        inspection.allowance.use_up()
        return Contents((), error.reason)
    return Contents(messages, "")


def _batches(frame: bytes, records: Iterable[tuple[int, int]]) -> Iterator[Batch]:
    for span in records:
        yield from iter_batches(frame, *span)


def check_names(topics: Sequence[ProduceTopic]) -> None:
    """Refuse a request that names too many topics, or one twice.

    :raises ProtocolError: if it does.
    """
    check_topics(len(topics))
    if len({topic.name for topic in topics}) != len(topics):
        raise ProtocolError("a topic is named twice in one Produce request")
