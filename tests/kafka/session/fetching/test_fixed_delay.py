"""When a fixed delay starts: at a credible time stamp, else at the record's arrival."""

from dataclasses import dataclass, field

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.session.fetching.stored_log import Reader, StoredLog
from tests.kafka.session.messages import batch, fetch, fetched, outcome, produce, produced, records_of
from tests.kafka.session.wire import SECOND, START, Bench, Wire

from sluicegate.model import PolicyValue

HOUR_MS = 3_600_000
STEP_NS = SECOND // 50
POLL_MS = 600
"""The longest time from one answer to the next, and a step of the clock."""


@dataclass
class Play:
    """A producer and a consumer of one topic, both behind one gate."""

    policies: dict[str, PolicyValue]
    log: StoredLog = field(default_factory=StoredLog)
    now: int = START

    def __post_init__(self) -> None:
        bench = Bench(**self.policies)
        self.producer = Wire(bench, peer="10.0.0.1:1")
        self.consumer = Wire(bench, self.producer.shared, peer="10.0.0.2:1")
        self.reader = Reader(self.consumer, self.log)

    @property
    def wall_ms(self) -> int:
        return self.producer.shared.wall_ms(self.now)

    def publish(self, through_gate: bool, timestamp_ms: int) -> int:
        """Store a batch; its base offset."""
        self.producer.now = self.now
        offset = self.log.end
        if through_gate:
            self.log.publish(self.producer, 3, timestamp_ms)
        else:
            self.log.append(3, timestamp_ms)
        return offset

    def read(self, seconds: float) -> None:
        """Let the consumer run."""
        end = self.now + int(seconds * SECOND)
        while self.now < end:
            self.reader.step(self.now)
            self.now += STEP_NS

    def wait(self, seconds: float) -> None:
        """Let time pass without the consumer."""
        self.now += int(seconds * SECOND)


@pytest.mark.parametrize("through_gate", [True, False], ids=["through the gate", "at the broker"])
def test_receive_time_holds_each_batch_for_its_own_delay(through_gate: bool) -> None:
    play = Play({"fixed_delivery_delay": 3_000, "delay_clock": "receive_time"})
    play.read(0.1)
    stored: dict[int, int] = {}
    for _ in range(20):
        stored[play.publish(through_gate, play.wall_ms - HOUR_MS)] = play.wall_ms
        play.read(0.25)
    play.read(5)
    late = [play.reader.received[offset] - stored[offset] for offset in stored]
    assert min(late) >= 3_000
    assert max(late) <= 3_000 + POLL_MS


def test_receive_time_is_known_of_batches_stored_without_a_consumer() -> None:
    play = Play({"fixed_delivery_delay": 3_000, "delay_clock": "receive_time"})
    stored: dict[int, int] = {}
    for _ in range(8):
        stored[play.publish(True, play.wall_ms)] = play.wall_ms
        play.wait(0.25)
    play.read(4)
    late = [play.reader.received[offset] - stored[offset] for offset in stored]
    assert min(late) >= 3_000
    assert max(late) <= 3_000 + POLL_MS


@pytest.mark.parametrize("through_gate", [True, False], ids=["through the gate", "at the broker"])
@pytest.mark.parametrize("delay_s", [3, 600])
def test_a_back_dated_batch_counts_from_its_arrival(through_gate: bool, delay_s: int) -> None:
    play = Play({"fixed_delivery_delay": delay_s * 1_000})
    play.read(1)
    stored_ms = play.wall_ms
    assert play.publish(through_gate, stored_ms - HOUR_MS) == 0
    play.read(1)
    play.wait(delay_s - 2)
    play.read(3)
    assert 0 <= play.reader.received[0] - stored_ms - delay_s * 1_000 <= POLL_MS


def test_a_back_dated_batch_is_recognised_by_late_consumers_too() -> None:
    play = Play({"fixed_delivery_delay": 2 * HOUR_MS})
    stored_ms = play.wall_ms
    play.publish(True, stored_ms - 3 * HOUR_MS)
    play.publish(True, stored_ms)
    play.wait(2 * 3_600 - 1)
    play.read(3)
    assert list(play.reader.received) == [0, 3]
    assert all(0 <= at - stored_ms - 2 * HOUR_MS <= POLL_MS for at in play.reader.received.values())
    assert play.producer.shared.counters()["produce_back_dated"] == 1


@pytest.mark.parametrize("behind_ms", [60_000, 1_800_000])
def test_the_tolerance_can_be_set(behind_ms: int) -> None:
    play = Play({"fixed_delivery_delay": 3_000, "max_timestamp_behind": behind_ms})
    play.read(1)
    begin_ms = play.wall_ms
    play.publish(True, begin_ms - 1_000_000)
    play.read(5)
    assert (play.reader.received[0] - begin_ms >= 3_000) == (behind_ms == 60_000)


def test_a_time_stamp_older_than_five_seconds_skips_nothing_by_default() -> None:
    play = Play({"fixed_delivery_delay": 30_000})
    play.read(1)
    begin_ms = play.wall_ms
    play.publish(True, begin_ms - 5_100)
    play.read(31)
    assert 0 <= play.reader.received[0] - begin_ms - 30_000 <= POLL_MS
    assert play.producer.shared.counters()["produce_back_dated"] == 1


def test_a_time_stamp_within_the_tolerance_is_used() -> None:
    play = Play({"fixed_delivery_delay": 3_000})
    play.read(1)
    begin_ms = play.wall_ms
    play.publish(True, begin_ms - 4_900)
    play.read(2)
    assert play.reader.received[0] - begin_ms < 1_000


def test_old_batches_keep_their_time_stamps_under_a_long_delay() -> None:
    play = Play({"fixed_delivery_delay": HOUR_MS})
    begin_ms = play.wall_ms
    play.publish(False, begin_ms - 2 * HOUR_MS)
    play.publish(False, begin_ms - HOUR_MS // 2)
    play.read(1)
    assert list(play.reader.received) == [0]
    play.wait(1_798)
    play.read(3)
    assert 0 <= play.reader.received[3] - begin_ms - HOUR_MS // 2 <= POLL_MS


def test_stored_batches_wait_once_for_a_short_delay() -> None:
    play = Play({"fixed_delivery_delay": 3_000})
    begin_ms = play.wall_ms
    for _ in range(5):
        play.publish(False, begin_ms - HOUR_MS)
    play.read(5)
    assert len(play.reader.received) == 5
    assert all(3_000 <= at - begin_ms <= 3_000 + POLL_MS for at in play.reader.received.values())
    again = Reader(Wire(Bench(), play.producer.shared, peer="10.0.0.3:1"), play.log)
    again.step(play.now)
    assert len(again.received) == 5


def test_log_append_time_is_trusted() -> None:
    log_append_time = 0x08
    play = Play({"fixed_delivery_delay": 3_000, "delay_clock": "receive_time"})
    begin_ms = play.wall_ms
    play.log.append(3, begin_ms - HOUR_MS, log_append_time)
    play.log.append(3, begin_ms - 1_000, log_append_time)
    play.read(4)
    assert play.reader.received[0] - begin_ms < 1_000
    assert 2_000 <= play.reader.received[3] - begin_ms <= 2_000 + POLL_MS


def test_without_acknowledgements_the_high_watermark_dates_arrival() -> None:
    play = Play({"fixed_delivery_delay": 3_000, "delay_clock": "receive_time"})
    play.read(1)
    play.producer.client_sends(produce({"t": batch(b"x")}, acks=0))
    begin_ms = play.wall_ms
    play.log.append(1, 1_000)
    play.read(5)
    assert 3_000 <= play.reader.received[0] - begin_ms <= 3_000 + POLL_MS


def test_a_recreated_topic_forgets_earlier_arrivals() -> None:
    """Its offsets start again, with batches that another topic of that name had long ago."""
    play = Play({"fixed_delivery_delay": 3_000, "delay_clock": "receive_time"})
    for _ in range(3):
        play.publish(True, play.wall_ms)
    play.wait(10)
    play.log = StoredLog()
    stored_ms = play.wall_ms
    play.publish(True, stored_ms)
    play.reader = Reader(play.consumer, play.log)
    play.read(5)
    assert 3_000 <= play.reader.received[0] - stored_ms <= 3_000 + POLL_MS


def test_a_repeated_batch_does_not_restart_the_delay() -> None:
    """The broker answers a batch that it has stored already with the offset of then."""
    play = Play({"fixed_delivery_delay": 3_000, "delay_clock": "receive_time"})
    mine = batch(b"x", producer_id=5, sequence=0)
    play.log.batches.append((0, mine))
    play.log.end = 1
    stored_ms = play.wall_ms

    def send() -> None:
        play.producer.now = play.now
        play.producer.client_sends(produce({"t": mine}))
        assert len(play.producer.forwarded()) == 1
        play.producer.broker_sends(produced("t", offset=0))
        assert len(play.producer.answered()) == 1

    send()
    play.publish(True, play.wall_ms)
    for _ in range(5):
        play.read(1)
        send()
    assert list(play.reader.received) == [0, 1]
    assert all(3_000 <= at - stored_ms <= 3_000 + POLL_MS for at in play.reader.received.values())


@pytest.mark.parametrize("told_by", ["error", "high watermark"])
def test_a_fetch_reveals_that_a_topic_was_recreated(told_by: str) -> None:
    wire = Wire(Bench(fixed_delivery_delay=3_000, delay_clock="receive_time"))
    stored = batch(b"x", timestamp_ms=1_000)

    def ask(answer: bytes) -> None:
        wire.client_sends(fetch("t"))
        wire.forwarded()
        wire.broker_sends(answer)

    ask(fetched({"t": stored}, high_watermark=9))
    wire.wait(5)
    wire.answered()
    ask(fetched({"t": stored}, high_watermark=9))
    assert records_of(wire.answered()[0]) == {"t": stored}
    wire.wait(5)
    if told_by == "error":
        ask(fetched({"t": b""}, high_watermark=-1, error=ErrorCode.unknown_topic_or_partition))
        wire.answered()
    ask(fetched({"t": stored}, high_watermark=1))
    assert wire.answered() == []
    wire.wait(3.1)
    wire.answered()
    ask(fetched({"t": stored}, high_watermark=1))
    assert records_of(wire.answered()[0]) == {"t": stored}


def test_the_rest_of_a_split_request_records_arrivals_too() -> None:
    bench = Bench(fixed_delivery_delay=3_000, delay_clock="receive_time")
    bench.set_topic("big", max_message_size=1)
    wire = Wire(bench)
    stored = batch(b"x")
    wire.client_sends(produce({"big": batch(b"too much"), "t": stored}))
    wire.forwarded()
    wire.broker_sends(produced("t", offset=0))
    assert {topic: code for (topic, _), (code, _) in outcome(wire.answered()[0]).items()} == {
        "big": 10,
        "t": 0,
    }
    wire.wait(2.9)
    consumer = Wire(bench, wire.shared, peer="10.0.0.2:1")
    consumer.wait(2.9)
    consumer.client_sends(fetch("t"))
    consumer.broker_sends(fetched({"t": stored}, high_watermark=1))
    assert consumer.answered() == []
    consumer.wait(0.2)
    consumer.answered()
    consumer.client_sends(fetch("t", correlation_id=2))
    consumer.broker_sends(fetched({"t": stored}, correlation_id=2, high_watermark=1))
    assert records_of(consumer.answered()[0]) == {"t": stored}
