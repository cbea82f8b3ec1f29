"""One partition of a broker with a producer and a consumer, on a clock that the test controls."""

from dataclasses import dataclass, field

from tests.kafka.session.messages import batch, fetch, fetched, produce, produced, records_of
from tests.kafka.session.wire import SECOND, Wire

from sluicegate_kafka.codec.records import walk_batches

_TOPIC = "t"
_LONGEST_POLL_S = 0.5


@dataclass
class StoredLog:
    """Batches of topic t as they were appended."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    """Offset and bytes of each."""
    end: int = 0

    def append(self, records: int, timestamp_ms: int, attributes: int = 0) -> bytes:
        """Append one batch, as a producer does that knows the broker directly."""
        values = [b"x"] * records
        stored = batch(*values, timestamp_ms=timestamp_ms, offset=self.end, attributes=attributes)
        self.batches.append((self.end, stored))
        self.end += records
        return stored

    def publish(self, wire: Wire, records: int, timestamp_ms: int) -> None:
        """Append one batch through the gateway."""
        wire.client_sends(produce({_TOPIC: batch(*[b"x"] * records, timestamp_ms=timestamp_ms)}))
        offset = self.end
        assert len(wire.forwarded()) == 1
        self.append(records, timestamp_ms)
        wire.broker_sends(produced(_TOPIC, offset=offset))
        assert len(wire.answered()) == 1


@dataclass
class Reader:
    """A consumer that asks again as soon as it is answered."""

    wire: Wire
    log: StoredLog
    position: int = 0
    received: dict[int, int] = field(default_factory=dict)
    """Base offset of each batch -> wall clock in ms when it came."""
    _asked: bool = False
    _empty_since: int = 0

    def step(self, now_ns: int) -> None:
        """Let the time be this, and do what there is to do."""
        wire = self.wire
        wire.wait((now_ns - wire.now) / SECOND)
        if not self._asked:
            wire.client_sends(fetch(_TOPIC))
            assert len(wire.forwarded()) == 1
            self._asked, self._empty_since = True, now_ns
            self._answer(now_ns)
        elif self._empty_since:
            self._answer(now_ns)
        for frame in wire.answered():
            self._asked = False
            records = records_of(frame)[_TOPIC]
            for header in walk_batches(records, 0, len(records)):
                offset = int.from_bytes(records[header.offset : header.offset + 8], "big")
                assert offset == self.position
                self.received[offset] = wire.shared.wall_ms(now_ns)
                self.position += header.record_count

    def _answer(self, now_ns: int) -> None:
        """What the broker does: it waits for records for as long as the client lets it."""
        records = b"".join(stored for offset, stored in self.log.batches if offset >= self.position)
        if records or now_ns - self._empty_since >= _LONGEST_POLL_S * SECOND:
            self._empty_since = 0
            self.wire.broker_sends(fetched({_TOPIC: records}, high_watermark=self.log.end))
