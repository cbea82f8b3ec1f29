"""A Produce request that differs from the last one in a relevant way takes the long path."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.kafka.session.messages import batch, fetch, produce, publish
from tests.kafka.session.wire import Bench, Wire

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.primitives import write_uvarint
from sluicegate_kafka.codec.produce_requests import ProduceRequest, ProduceTopic
from sluicegate_kafka.session.producing.repeated import Repeated, is_repeatable
from sluicegate_kafka.session.requests.pending import Outstanding

RECORDS = batch(b"payload")
FRAME = produce({"t": RECORDS})
_TAGS = 3
"""Empty tagged fields behind the batch."""
_BATCH_AT = len(FRAME) - _TAGS - len(RECORDS)
_MAGIC_AT, _PRODUCER_AT, _COUNT_AT = _BATCH_AT + 16, _BATCH_AT + 43, _BATCH_AT + 57


@dataclass
class Form:
    """A session that has seen two equal requests, and what it passes from then on."""

    wire: Wire
    repeated: Repeated

    @property
    def outstanding(self) -> Outstanding:
        """The responses that the client is owed."""
        return self.wire.session.connection.outstanding

    def again(self, frame: bytes = FRAME) -> int:
        """As `Repeated.again`, of a request that came whole and alone."""
        return self.repeated.again(frame, 0, len(frame), self.wire.now)


@pytest.fixture
def form() -> Form:
    wire = Wire(Bench(max_publish_rate=1000))
    for _ in range(2):
        publish(wire, {"t": RECORDS})
    repeated = wire.session.producing.repeated
    assert repeated is not None
    return Form(wire, repeated)


def changed(at: int, value: bytes, frame: bytes = FRAME) -> bytes:
    at %= len(frame)
    return frame[:at] + value + frame[at + len(value) :]


def longer(by: int, *, batch_too: bool = False) -> bytes:
    """The request with zeros at its end, which its length counts."""
    frame = changed(0, (len(FRAME) - 4 + by).to_bytes(4, "big")) + bytes(by)
    return changed(_BATCH_AT + 8, (len(RECORDS) - 12 + by).to_bytes(4, "big"), frame) if batch_too else frame


def empty_batch(counted: int) -> bytes:
    """A request whose batch counts so many bytes behind its length; 49 are a header without records."""
    size = write_uvarint(counted + 12 + 1)
    head = FRAME[: _BATCH_AT - len(size)] + size + RECORDS[:8] + counted.to_bytes(4, "big")
    frame = head + RECORDS[12 : 12 + 45] + bytes(counted - 45 + _TAGS)
    return changed(0, (len(frame) - 4).to_bytes(4, "big"), frame)


def test_an_equal_request_passes_with_any_correlation_id_and_is_counted(form: Form) -> None:
    before = form.wire.shared.gate("t", False, form.wire.now).state.allowed_messages

    assert form.again(changed(8, (77).to_bytes(4, "big"))) == len(FRAME)

    assert form.wire.shared.gate("t", False, form.wire.now).state.allowed_messages == before + 1
    assert form.outstanding.queue[-1] in (77, (77, form.repeated._glance))


def test_pipelined_requests_are_found_at_their_offsets(form: Form) -> None:
    data = b"xx" + FRAME + FRAME

    assert form.repeated.again(data, 2, len(data), form.wire.now) == len(data)
    assert form.repeated.again(data + FRAME[:-1], 2, len(data) + len(FRAME) - 1, form.wire.now) == len(data)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(FRAME[:20], id="cut within its head"),
        pytest.param(changed(6, b"\0\x0a"), id="version"),
        pytest.param(FRAME.replace(b"app", b"apq"), id="client id"),
        pytest.param(changed(_PRODUCER_AT, bytes(8)), id="producer id"),
        pytest.param(longer(1), id="bytes behind the batch"),
        pytest.param(longer(1, batch_too=True), id="bytes that the batch's size does not count"),
        pytest.param(changed(_BATCH_AT - 1, bytes([FRAME[_BATCH_AT - 1] + 1])), id="size of the batch"),
        pytest.param(changed(-3, b"\1"), id="tags of the partition"),
        pytest.param(changed(-2, b"\1"), id="tags of the topic"),
        pytest.param(changed(-1, b"\1"), id="tags of the request"),
        pytest.param(changed(_MAGIC_AT, b"\1"), id="former magic"),
        pytest.param(changed(_MAGIC_AT, b"\3"), id="unknown magic"),
        pytest.param(changed(_COUNT_AT, b"\xff\xff\xff\xff"), id="negative count"),
        pytest.param(empty_batch(48), id="batch without a whole header"),
    ],
)
def test_a_request_that_differs_is_parsed(form: Form, frame: bytes) -> None:
    assert form.again() == len(FRAME)  # so that its size is known
    assert form.again(frame) == 0
    assert form.again() == len(FRAME)


def test_a_partial_request_is_not_passed(form: Form) -> None:
    assert form.repeated.again(FRAME, 0, len(FRAME) - 1, form.wire.now) == 0


def test_a_batch_without_records_passes(form: Form) -> None:
    frame = empty_batch(49)

    assert form.again(frame) == len(frame)


def test_a_batch_with_a_record_count_of_0_passes(form: Form) -> None:
    assert form.again(changed(_COUNT_AT, bytes(4))) == len(FRAME)


def test_batches_of_another_size_pass_and_are_counted_with_it(form: Form) -> None:
    records = batch(b"a longer payload", b"and another")
    frame = produce({"t": records})

    assert form.again(frame) == len(frame)

    operation = form.repeated._attached.operation
    assert (operation.messages, operation.bytes, operation.reliable) == (2, len(records), True)
    assert operation.largest == len(records) - 61  # what stands behind the batch's header


def test_the_largest_allowed_frame_passes(form: Form) -> None:
    frame = produce({"t": batch(b"another size")})
    form.repeated._limit = len(frame) - 4

    assert form.again(frame) == len(frame)


def test_a_frame_that_is_too_large_is_parsed(form: Form) -> None:
    frame = produce({"t": batch(b"another size")})
    form.repeated._limit = len(frame) - 5

    assert form.again(frame) == 0


def owes_much(form: Form) -> None:
    form.outstanding.most = len(form.outstanding)


def gate_has_changed(form: Form) -> None:
    form.wire.shared.gates.live["t"] = form.wire.shared.gate("u", False, form.wire.now)


def is_exempt_now(form: Form) -> None:
    form.wire.session.connection.accepted("", exempt=True)


def is_too_large(form: Form) -> None:
    form.repeated._attached.size_limit = len(RECORDS) - 62


def has_gaps(form: Form) -> None:
    form.wire.shared.client_gaps.of(form.wire.session.connection)


@pytest.mark.parametrize("but", [owes_much, gate_has_changed, is_exempt_now, is_too_large, has_gaps])
def test_an_equal_request_is_parsed_where_more_must_be_checked(
    form: Form, but: Callable[[Form], None]
) -> None:
    but(form)
    before = form.repeated._attached.last_ns
    form.wire.now += 1

    assert form.again() == 0

    assert form.repeated.decision is None
    assert form.repeated._attached.last_ns == before


def owes_nearly_as_much_as_it_may(form: Form) -> None:
    form.outstanding.most = len(form.outstanding) + 1


def is_as_large_as_it_may_be(form: Form) -> None:
    form.repeated._attached.size_limit = len(RECORDS) - 61


def another_client_has_gaps(form: Form) -> None:
    other = Wire(Bench(), peer="10.0.0.2:5000").session.connection
    form.wire.shared.client_gaps.of(other)


@pytest.mark.parametrize(
    "but", [owes_nearly_as_much_as_it_may, is_as_large_as_it_may_be, another_client_has_gaps]
)
def test_an_equal_request_passes_at_each_limit(form: Form, but: Callable[[Form], None]) -> None:
    but(form)
    form.wire.now += 1

    assert form.again() == len(FRAME)

    assert form.repeated._attached.last_ns == form.wire.now


def test_a_decision_of_the_short_path_is_kept_for_the_long_one() -> None:
    wire = Wire(Bench(max_publish_rate=2))
    for _ in range(2):
        publish(wire, {"t": RECORDS})
    repeated: Any = wire.session.producing.repeated
    owed = len(repeated._connection.outstanding)

    assert repeated.again(FRAME, 0, len(FRAME), wire.now) == 0

    assert repeated.decision is not None
    assert len(repeated._connection.outstanding) == owed


def test_requests_without_acknowledgement_expect_no_response() -> None:
    wire = Wire(Bench())
    frame = produce({"t": RECORDS}, acks=0)
    for _ in range(2):
        wire.client_sends(frame)
    repeated = wire.session.producing.repeated
    assert repeated is not None

    assert repeated.again(frame, 0, len(frame), wire.now) == len(frame)

    assert not repeated._connection.outstanding
    assert not repeated._attached.operation.reliable


def test_the_client_id_of_the_last_request_is_the_connections() -> None:
    wire = Wire(Bench())
    for _ in range(3):
        wire.client_sends(produce({"t": batch(b"x")}))
    wire.client_sends(fetch("t", client_id="other"))
    assert wire.session.connection.client_id == "other"

    wire.client_sends(produce({"t": batch(b"x")}))

    assert wire.session.connection.client_id == "app"


ONE = ProduceTopic(
    frame=b"\2t",
    name="t",
    start=0,
    end=100,
    partitions=[0],
    messages=1,
    bytes=80,
    largest_batch=80 - 61,
    max_timestamp=-1,
    producer_id=-1,
    records=[],
    more_producers=(),
    inspected=None,
    contents=None,
)


def request(*topics: ProduceTopic, version: int = 9) -> ProduceRequest:
    head = RequestHead(ApiKey.PRODUCE, version, correlation_id=1, client_id="", body=0, start=0, end=0)
    return ProduceRequest(b"", head, -1, list(topics), 0, 0)


@pytest.mark.parametrize(
    ("one", "name_length", "is_one"),
    [
        pytest.param(request(ONE), 2, True, id="one batch for one topic"),
        pytest.param(request(ONE, version=8), 2, False, id="version without compact lengths"),
        pytest.param(request(ONE, ONE), 2, False, id="two topics"),
        pytest.param(request(), 2, False, id="no topic"),
        pytest.param(request(ONE._replace(partitions=[0, 1])), 2, False, id="two partitions"),
        pytest.param(request(ONE._replace(bytes=81)), 2, False, id="two batches"),
        pytest.param(request(ONE), 127, True, id="longest name with a length of one byte"),
        pytest.param(request(ONE), 128, False, id="name with a length of two bytes"),
    ],
)
def test_requests_with_one_batch_for_one_topic_are_repeatable(
    one: ProduceRequest, name_length: int, is_one: bool
) -> None:
    assert is_repeatable(one._replace(frame=bytes([name_length]))) is is_one
