"""Policies on Fetch responses: dispatch rates, fixed delay, and consumers without a group."""

import datetime
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32, i64
from tests.kafka.codec.entities import decode_response
from tests.kafka.session.messages import (
    FETCH,
    batch,
    fetch,
    fetch_errors,
    fetch_response,
    fetched,
    join,
    joined,
    records_of,
)
from tests.kafka.session.wire import START, Bench, Wire, response


def several_partitions(*records: bytes) -> Any:
    """The broker's answer with records in several partitions of topic t."""
    return fetch_response.FetchResponse(
        throttle_time=datetime.timedelta(0),
        error_code=ErrorCode.none,
        responses=(
            fetch_response.FetchableTopicResponse(
                topic="t",
                partitions=tuple(
                    fetch_response.PartitionData(
                        partition_index=i32(index),
                        error_code=ErrorCode.none,
                        high_watermark=i64(100),
                        last_stable_offset=i64(100),
                        log_start_offset=i64(0),
                        aborted_transactions=(),
                        records=stored,
                    )
                    for index, stored in enumerate(records)
                ),
            ),
        ),
    )


def asks(wire: Wire, *topics: str, correlation_id: int = 1) -> None:
    """A Fetch that reaches the broker."""
    wire.client_sends(fetch(*topics, correlation_id=correlation_id))
    assert len(wire.forwarded()) == 1


def test_without_dispatch_policies_a_response_streams_through_in_pieces() -> None:
    wire = Wire(Bench(max_publish_rate=5))
    asks(wire, "t")
    answer = fetched({"t": batch(b"x" * 1000)})
    wire.broker_sends(answer[:20])
    assert wire.downstream == answer[:20]
    wire.broker_sends(answer[20:])
    assert wire.downstream == answer


@pytest.mark.seed("S1-070", "S1-071", "S1-082")
def test_delivery_is_cut_at_a_batch_and_nothing_is_lost() -> None:
    wire = Wire(Bench(max_dispatch_rate=10))
    first, second = batch(*[b"x"] * 6), batch(*[b"y"] * 6, offset=6)
    asks(wire, "t")
    wire.broker_sends(fetched({"t": first + second}))
    (answer,) = wire.answered()
    assert records_of(answer) == {"t": first}
    wire.wait(0.3)
    asks(wire, "t")
    wire.broker_sends(fetched({"t": second}))
    (answer,) = wire.answered()
    assert records_of(answer) == {"t": second}


def test_an_emptied_response_waits_instead_of_coming_back_at_once() -> None:
    wire = Wire(Bench(max_dispatch_rate=10))
    asks(wire, "t")
    wire.broker_sends(fetched({"t": batch(*[b"x"] * 10)}))
    wire.answered()
    asks(wire, "t")
    wire.broker_sends(fetched({"t": batch(*[b"x"] * 2)}))
    assert wire.answered() == []
    wire.wait(0.19)
    assert wire.answered() == []
    wire.wait(0.02)
    (answer,) = wire.answered()
    assert records_of(answer) == {"t": b""}


def test_the_wait_ends_at_the_clients_max_wait() -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    asks(wire, "t")
    wire.broker_sends(fetched({"t": batch(b"x")}))
    wire.answered()
    wire.client_sends(fetch("t", max_wait_ms=100))
    wire.broker_sends(fetched({"t": batch(b"x")}))
    wire.wait(0.11)
    assert len(wire.answered()) == 1


def test_other_topics_are_not_held() -> None:
    bench = Bench(max_dispatch_rate=1)
    wire = Wire(bench)
    free = batch(b"free")
    asks(wire, "t", "u")
    wire.broker_sends(fetched({"t": batch(*[b"x"] * 5), "u": free}))
    (answer,) = wire.answered()
    # A batch larger than the bucket passes while it is full, so both come; then only the other topic does.
    assert records_of(answer)["u"] == free
    asks(wire, "t", "u")
    wire.wait(1)
    wire.broker_sends(fetched({"t": batch(*[b"x"] * 5), "u": free}))
    (answer,) = wire.answered()
    assert records_of(answer) == {"t": b"", "u": free}


@pytest.mark.seed("S1-080", "S1-081", "S1-124")
def test_each_group_has_its_own_rate() -> None:
    bench = Bench(max_subscription_dispatch_rate=5)
    one = Wire(bench, peer="10.0.0.1:1")
    two = Wire(bench, one.shared, peer="10.0.0.2:1")
    records = batch(*[b"x"] * 5)
    for wire, group in ((one, "g1"), (two, "g2")):
        wire.client_sends(join(group, "t", member="m"))
        wire.broker_sends(joined("m"))
        wire.forwarded(), wire.answered()
        asks(wire, "t")
        wire.broker_sends(fetched({"t": records}))
        (answer,) = wire.answered()
        assert records_of(answer) == {"t": records}
    asks(one, "t")
    one.broker_sends(fetched({"t": records}))
    assert one.answered() == []


@pytest.mark.seed("S2-006", "S2-026")
def test_a_fixed_delay_holds_batches_until_they_are_due_in_order() -> None:
    wire = Wire(Bench(fixed_delivery_delay=2_000))
    wall = wire.shared.wall_ms(START)
    due, undue = batch(b"old", timestamp_ms=wall - 2_000), batch(b"new", timestamp_ms=wall - 500, offset=1)
    asks(wire, "t")
    wire.broker_sends(fetched({"t": due + undue}))
    (answer,) = wire.answered()
    assert records_of(answer) == {"t": due}
    wire.wait(1.4)
    asks(wire, "t")
    wire.broker_sends(fetched({"t": undue}))
    assert wire.answered() == []
    wire.wait(0.2)
    (answer,) = wire.answered()
    assert records_of(answer) == {"t": b""}
    asks(wire, "t")
    wire.broker_sends(fetched({"t": undue}))
    (answer,) = wire.answered()
    assert records_of(answer) == {"t": undue}


def test_a_stored_batch_stamped_far_ahead_is_due_at_first_sight_plus_the_delay() -> None:
    wire = Wire(Bench(fixed_delivery_delay=1_000))
    far = batch(b"x", timestamp_ms=wire.shared.wall_ms(START) + 86_400_000)
    asks(wire, "t")
    wire.broker_sends(fetched({"t": far}))
    wire.wait(1)
    assert records_of(wire.answered()[0]) == {"t": b""}
    asks(wire, "t")
    wire.broker_sends(fetched({"t": far}))
    (answer,) = wire.answered()
    assert records_of(answer) == {"t": far}


@pytest.mark.seed("S1-003", "S1-037")
def test_a_consumer_without_a_group_counts_from_its_first_fetch() -> None:
    bench = Bench(max_consumers_per_topic=1)
    one = Wire(bench, peer="10.0.0.1:1")
    two = Wire(bench, one.shared, peer="10.0.0.2:1")
    asks(one, "t")
    one.broker_sends(fetched({"t": batch(b"x")}))
    assert fetch_errors(one.answered()[0]) == {"t": 0}
    asks(two, "t")
    two.broker_sends(fetched({"t": batch(b"x")}))
    two.wait(1)
    (refused,) = two.answered()
    assert fetch_errors(refused) == {"t": 29}
    assert records_of(refused) == {"t": b""}
    one.session.closed(one.now)
    asks(two, "t")
    two.broker_sends(fetched({"t": batch(b"x")}))
    assert fetch_errors(two.answered()[0]) == {"t": 0}


def test_a_refused_fetch_takes_as_long_as_an_empty_one() -> None:
    """Clients that go on after a refusal would ask again at once, for ever."""
    one = Wire(Bench(max_consumers_per_topic=1), peer="10.0.0.1:1")
    two = Wire(Bench(), one.shared, peer="10.0.0.2:1")
    asks(one, "t")
    asks(two, "t")
    two.broker_sends(fetched({"t": batch(b"x")}))
    two.wait(0.49)
    assert two.answered() == []
    two.wait(0.02)
    assert fetch_errors(two.answered()[0]) == {"t": 29}


def test_a_refused_topic_does_not_hold_up_another() -> None:
    one = Wire(Bench(max_consumers_per_topic=1), peer="10.0.0.1:1")
    two = Wire(Bench(), one.shared, peer="10.0.0.2:1")
    asks(one, "t")
    asks(two, "t", "u")
    two.broker_sends(fetched({"t": batch(b"x"), "u": batch(b"y")}))
    (answer,) = two.answered()
    assert fetch_errors(answer) == {"t": 29, "u": 0}
    assert records_of(answer) == {"t": b"", "u": batch(b"y")}


def test_partitions_of_a_limited_topic_get_their_turns() -> None:
    """A partition that always has records must not take the whole rate from those listed behind it."""
    wire = Wire(Bench(max_dispatch_rate=10))
    records = batch(*[b"x"] * 6)
    delivered = []
    for _ in range(6):
        asks(wire, "t")
        wire.broker_sends(response(several_partitions(records, records, records)))
        wire.wait(0.7)
        (answer,) = wire.answered()
        entity: Any = decode_response(answer, FETCH, 12)[1]
        delivered += [
            partition.partition_index
            for partition in entity.responses[0].partitions
            if bytes(partition.records or b"")
        ]
    assert len(delivered) >= 5
    assert {delivered.count(index) for index in (0, 1, 2)} <= {len(delivered) // 3, -(-len(delivered) // 3)}


def test_a_partition_that_has_had_its_turn_does_not_come_first_again() -> None:
    wire = Wire(Bench(max_dispatch_rate=10))
    many, few = batch(*[b"x"] * 10), batch(b"x")

    def delivered(records: bytes) -> list[int]:
        asks(wire, "t")
        wire.broker_sends(response(several_partitions(records, records)))
        wire.wait(10)
        (answer,) = wire.answered()
        entity: Any = decode_response(answer, FETCH, 12)[1]
        return [each.partition_index for each in entity.responses[0].partitions if bytes(each.records or b"")]

    assert delivered(many) == [0]
    assert delivered(few) == [0, 1]
    assert delivered(many) == [0]
