"""Policies on Produce requests: counts, size and rates, for whole requests and for parts."""

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.session.messages import (
    batch,
    outcome,
    produce,
    produced,
    publish,
    throttle_ms,
    topics_of,
)
from tests.kafka.session.wire import Bench, Wire

from sluicegate_kafka.codec.slices import at_once

POLICY_VIOLATION, MESSAGE_TOO_LARGE, NOT_ENOUGH_REPLICAS, INVALID_TIMESTAMP = 44, 10, 19, 32


def test_allowed_requests_are_forwarded_unchanged() -> None:
    wire = Wire(Bench(max_publish_rate=1000, max_producers_per_topic=5))
    sent = produce({"a": batch(b"x"), "b": batch(b"y", b"z")})
    wire.client_sends(sent)
    assert wire.upstream == sent
    answer = produced("a", "b")
    wire.broker_sends(answer)
    assert wire.downstream == answer


@pytest.mark.parametrize("piece", [1, 3, 11, 12, 13, 50])
def test_frames_may_come_in_pieces_of_any_size(piece: int) -> None:
    wire = Wire(Bench(max_publish_rate=1000))
    sent = produce({"a": batch(b"x")}, correlation_id=1) + produce({"b": batch(b"y")}, correlation_id=2)
    for at in range(0, len(sent), piece):
        wire.client_sends(sent[at : at + piece])
    assert wire.upstream == sent
    assert wire.session.frame_began_ns == 0
    answers = produced("a", correlation_id=1) + produced("b", correlation_id=2)
    for at in range(0, len(answers), piece):
        wire.broker_sends(answers[at : at + piece])
    assert wire.downstream == answers
    assert wire.shared.budget.used == 0


@pytest.mark.seed("S1-030", "S1-041", "S1-100")
def test_producers_count_by_client_and_the_first_above_the_limit_is_refused() -> None:
    bench = Bench(max_producers_per_topic=2)
    first = Wire(bench)
    assert publish(first, {"t": batch(b"1")}, client_id="one") == {("t", 0): (0, None)}
    second = Wire(bench, first.shared)
    assert publish(second, {"t": batch(b"1")}, client_id="two") == {("t", 0): (0, None)}
    third = Wire(bench, first.shared)
    (code, text) = publish(third, {"t": batch(b"1")}, client_id="three")["t", 0]
    assert code == POLICY_VIOLATION
    assert text is not None
    assert "Producer limit reached for topic t. Current: 2, Limit: 2." in text
    assert "[sluicegate " in text
    assert third.upstream == b""


@pytest.mark.seed("S1-030", "S1-043")
def test_a_producer_with_several_connections_counts_once_and_until_the_last_is_closed() -> None:
    bench = Bench(max_producers_per_topic=1)
    leaders = [Wire(bench)]
    leaders.append(Wire(bench, leaders[0].shared, peer="10.0.0.1:5001"))
    for wire in leaders:
        assert publish(wire, {"t": batch(b"1", producer_id=9, sequence=0)})["t", 0][0] == 0
    other = Wire(bench, leaders[0].shared, peer="10.0.0.2:5000")
    assert publish(other, {"t": batch(b"1", producer_id=8, sequence=0)})["t", 0][0] == POLICY_VIOLATION
    leaders[0].session.closed(leaders[0].now)
    assert publish(other, {"t": batch(b"1", producer_id=8, sequence=0)})["t", 0][0] == POLICY_VIOLATION
    leaders[1].session.closed(leaders[1].now)
    assert publish(other, {"t": batch(b"1", producer_id=8, sequence=0)})["t", 0][0] == 0


def test_an_idle_producer_no_longer_counts() -> None:
    bench = Bench(max_producers_per_topic=1)
    idle = Wire(bench)
    publish(idle, {"t": batch(b"1")}, client_id="idle")
    at_once(idle.session.producing.release_idle(idle.now + idle.shared.limits.producer_idle_ns + 1))
    assert publish(Wire(bench, idle.shared), {"t": batch(b"1")}, client_id="next")["t", 0][0] == 0


@pytest.mark.seed("S1-050", "S1-051", "S1-101")
def test_size_is_that_of_one_message_not_of_the_batch() -> None:
    wire = Wire(Bench(max_message_size=100))
    assert publish(wire, {"t": batch(*[b"x" * 60] * 10)})["t", 0][0] == 0
    assert publish(wire, {"t": batch(b"x" * 100)})["t", 0][0] == 0
    code, text = publish(wire, {"t": batch(b"x" * 60, b"x" * 101)})["t", 0]
    assert (code, "101" in (text or "")) == (POLICY_VIOLATION, True)
    assert publish(wire, {"t": batch(b"x" * 101)})["t", 0][0] == MESSAGE_TOO_LARGE


def test_a_producer_of_which_nothing_is_admitted_does_not_count() -> None:
    bench = Bench(max_message_size=10, max_producers_per_topic=1)
    refused = Wire(bench)
    other = Wire(bench, refused.shared, peer="10.0.0.2:1")
    large, small = batch(b"x" * 20, producer_id=1, sequence=0), batch(b"x", producer_id=1, sequence=0)
    assert publish(refused, {"t": large, "u": small})["t", 0][0] == MESSAGE_TOO_LARGE
    assert len(bench.gates.states["u"].producers) == 1
    mine = batch(b"x", producer_id=2, sequence=0)
    assert publish(other, {"t": mine}) == {("t", 0): (0, None)}
    # One that has published keeps its place whatever is refused later.
    assert publish(other, {"t": batch(b"x" * 20, producer_id=2, sequence=1)})["t", 0][0] == MESSAGE_TOO_LARGE
    assert publish(refused, {"t": small})["t", 0][0] == POLICY_VIOLATION


@pytest.mark.parametrize(
    ("error", "counted"),
    [
        (ErrorCode.topic_authorization_failed, []),
        (ErrorCode.transactional_id_authorization_failed, []),
        (ErrorCode.not_leader_or_follower, ["t"]),
    ],
)
@pytest.mark.parametrize("beside", [[], ["u"], ["large"]])
def test_a_producer_that_the_broker_does_not_let_publish_does_not_count(
    error: ErrorCode, counted: list[str], beside: list[str]
) -> None:
    bench = Bench(max_producers_per_topic=1)
    bench.set_topic("large", max_message_size=1)
    wire = Wire(bench)

    def send(correlation_id: int, *told: tuple[str, ErrorCode]) -> None:
        sent = {topic: batch(b"xyz", producer_id=7, sequence=correlation_id) for topic in ["t", *beside]}
        wire.client_sends(produce(sent, correlation_id=correlation_id))
        for topic, code in told:
            wire.broker_sends(produced(topic, correlation_id=correlation_id, offset=-1, error=code))
        assert len(wire.answered()) == len(told)

    def producers() -> list[str]:
        return [topic for topic, state in bench.gates.states.items() if state.producers]

    send(1, ("t", error))
    assert [topic for topic in producers() if topic == "t"] == counted
    send(2, ("t", ErrorCode.none))
    assert "t" in producers()
    # One that has published keeps its place.
    send(3, ("t", error))
    assert "t" in producers()


def test_some_topics_of_a_request_are_refused_and_the_others_forwarded() -> None:
    wire = Wire(Bench(max_message_size=50))
    wire.client_sends(produce({"a": batch(b"ok"), "b": batch(b"x" * 51, b"y"), "c": batch(b"ok")}))
    (part,) = wire.forwarded()
    assert topics_of(part) == ["a", "c"]
    assert wire.answered() == []
    wire.broker_sends(produced("a", "c"))
    (answer,) = wire.answered()
    assert {key: code for key, (code, _) in outcome(answer).items()} == {
        ("a", 0): 0,
        ("b", 0): POLICY_VIOLATION,
        ("c", 0): 0,
    }


def test_a_refusal_waits_for_the_answers_before_it() -> None:
    wire = Wire(Bench(max_message_size=50))
    wire.client_sends(produce({"t": batch(b"ok")}, correlation_id=1))
    wire.client_sends(produce({"t": batch(b"x" * 51)}, correlation_id=2))
    assert wire.downstream == b""
    wire.broker_sends(produced("t", correlation_id=1))
    answers = wire.answered()
    assert [int.from_bytes(answer[:4], "big") for answer in answers] == [1, 2]


def test_acks_0_gets_no_response_and_refused_batches_are_dropped_and_counted() -> None:
    wire = Wire(Bench(max_message_size=50))
    wire.client_sends(produce({"a": batch(b"ok"), "b": batch(b"x" * 51)}, acks=0))
    assert [topics_of(frame) for frame in wire.forwarded()] == [["a"]]
    wire.client_sends(produce({"b": batch(b"x" * 51)}, acks=0))
    assert wire.forwarded() == []
    assert wire.downstream == b""
    assert wire.shared.counters()["produce_dropped_acks_0"] == 2


@pytest.mark.seed("S1-061", "S1-065", "S1-123")
def test_over_the_rate_a_request_is_held_until_the_bucket_has_enough() -> None:
    wire = Wire(Bench(max_publish_rate=10))
    publish(wire, {"t": batch(*[b"x"] * 10)})
    sent = produce({"t": batch(*[b"x"] * 5)}, correlation_id=2)
    wire.client_sends(sent)
    wire.wait(0.49)
    assert wire.upstream == b""
    wire.wait(0.02)
    assert wire.upstream == sent
    wire.broker_sends(produced("t", correlation_id=2))
    (answer,) = wire.answered()
    assert outcome(answer)["t", 0][0] == 0
    assert throttle_ms(answer) == 500


def test_only_the_topic_over_its_rate_is_held_and_the_answer_is_one() -> None:
    wire = Wire(Bench(max_publish_rate=10))
    publish(wire, {"busy": batch(*[b"x"] * 10)})
    wire.client_sends(produce({"busy": batch(*[b"x"] * 10), "calm": batch(b"y")}, correlation_id=2))
    assert [topics_of(frame) for frame in wire.forwarded()] == [["calm"]]
    wire.broker_sends(produced("calm", correlation_id=2))
    wire.wait(0.99)
    assert wire.answered() == []
    wire.wait(0.02)
    assert [topics_of(frame) for frame in wire.forwarded()] == [["busy"]]
    wire.broker_sends(produced("busy", correlation_id=2))
    (answer,) = wire.answered()
    assert {key: code for key, (code, _) in outcome(answer).items()} == {("busy", 0): 0, ("calm", 0): 0}


def test_requests_behind_a_held_one_wait_in_order() -> None:
    wire = Wire(Bench(max_publish_rate=10))
    publish(wire, {"t": batch(*[b"x"] * 10)})
    frames = [produce({"t": batch(*[b"x"] * 5)}, correlation_id=number) for number in (2, 3, 4)]
    wire.client_sends(b"".join(frames))
    wire.wait(1.51)
    assert wire.upstream == b"".join(frames)
    assert wire.shared.budget.used == 0


def test_reading_stops_only_when_much_was_read_ahead() -> None:
    wire = Wire(Bench(max_publish_rate=1))
    publish(wire, {"t": batch(b"x")})
    wire.client_sends(produce({"t": batch(b"x")}, correlation_id=2))
    wire.client_sends(b"\0" * 1000)
    before = wire.paused
    wire.client_sends(b"\0" * 300_000)
    assert (before, wire.paused) == (False, True)
    wire.session.closed(wire.now)
    assert wire.shared.budget.used == 0


def test_a_held_request_whose_client_has_gone_is_never_forwarded() -> None:
    wire = Wire(Bench(max_publish_rate=10))
    publish(wire, {"t": batch(*[b"x"] * 10)})
    wire.client_sends(produce({"t": batch(*[b"x"] * 5)}, correlation_id=2))
    wire.wait(1, client_gone=True)
    assert wire.closed is not None
    wire.session.closed(wire.now)
    assert wire.upstream == b""
    # Its place in the line and its tokens went with it.
    other = Wire(Bench(), wire.shared)
    other.now = wire.now
    assert publish(other, {"t": batch(*[b"x"] * 10)}, client_id="b")["t", 0][0] == 0


def test_a_hold_ends_with_a_code_that_clients_retry() -> None:
    bench = Bench(max_publish_rate=1)
    wire = Wire(bench)
    publish(wire, {"t": batch(b"x")})
    wire.client_sends(produce({"t": batch(*[b"x"] * 20)}, correlation_id=2))
    bench.set(max_publish_rate=1, burst_seconds=60.0)
    wire.wait(10.1)
    assert wire.upstream == b""
    (answer,) = wire.answered()
    code, text = outcome(answer)["t", 0]
    assert code == NOT_ENOUGH_REPLICAS
    assert "held for 10000 ms" in (text or "")


@pytest.mark.seed("S1-024", "S1-063")
def test_a_policy_change_reaches_held_requests() -> None:
    bench = Bench(max_publish_rate=1)
    wire = Wire(bench)
    publish(wire, {"t": batch(b"x")})
    sent = produce({"t": batch(*[b"x"] * 8)}, correlation_id=2)
    wire.client_sends(sent)
    bench.set()
    wire.wait(1.01)
    assert wire.upstream == sent


@pytest.mark.seed("S1-062")
def test_on_limit_reject_refuses_at_once() -> None:
    wire = Wire(Bench({"max_publish_rate": 10, "on_limit.max_publish_rate": "reject"}))
    publish(wire, {"t": batch(*[b"x"] * 10)})
    code, text = publish(wire, {"t": batch(b"x")})["t", 0]
    assert code == POLICY_VIOLATION
    assert "Publish rate limit exceeded" in (text or "")


def test_observe_only_changes_nothing_for_the_client() -> None:
    wire = Wire(Bench({"max_message_size": 10, "mode.max_message_size": "observe"}))
    assert publish(wire, {"t": batch(b"x" * 100)})["t", 0][0] == 0
    gate = wire.shared.gate("t", False, wire.now)
    assert gate.state.observed == 1


def test_a_message_stamped_far_ahead_is_refused_where_delivery_is_delayed() -> None:
    wire = Wire(Bench(fixed_delivery_delay=1000))
    wall_ms = wire.shared.wall_ms(wire.now)
    near, far = wall_ms + 3_500_000, wall_ms + 3_700_000
    assert publish(wire, {"t": batch(b"x", timestamp_ms=near)})["t", 0][0] == 0
    assert publish(wire, {"t": batch(b"x", timestamp_ms=far)})["t", 0][0] == INVALID_TIMESTAMP


def test_an_idempotent_producer_that_closes_no_gap_continues_after_a_refusal() -> None:
    """aiokafka; it does not name itself."""
    wire = Wire(Bench(max_message_size=50), software="")
    publish(wire, {"t": batch(b"ok", producer_id=5, sequence=0)})
    refused = publish(wire, {"t": batch(b"x" * 51, b"y", producer_id=5, sequence=1)})
    assert refused["t", 0][0] == POLICY_VIOLATION
    wire.client_sends(produce({"t": batch(b"ok", producer_id=5, sequence=3)}))
    (frame,) = wire.forwarded()
    expected = produce({"t": batch(b"ok", producer_id=5, sequence=1)})[4:]
    assert frame == expected


def test_what_was_under_way_behind_a_refused_batch_is_refused_as_by_a_broker() -> None:
    """franz-go has failed it by then; a broker without records of the producer would store it."""
    wire = Wire(Bench(max_message_size=50), software="kgo")
    large = batch(b"x" * 51, b"y", producer_id=5, sequence=0)
    small = [batch(b"ok", producer_id=5, sequence=number) for number in (2, 3)]
    wire.client_sends(*(produce({"t": each}, correlation_id=1) for each in (large, *small)))
    assert wire.upstream == b""
    assert [outcome(frame)["t", 0][0] for frame in wire.answered()] == [POLICY_VIOLATION, 45, 45]
    assert publish(wire, {"t": batch(b"ok", producer_id=5, sequence=0)})["t", 0][0] == 0
    assert publish(wire, {"t": batch(b"ok", producer_id=5, sequence=1)})["t", 0][0] == 0
    assert not wire.shared.client_gaps.by_client


@pytest.mark.parametrize(("library", "code"), [("kgo", 45), ("librdkafka", 0)])
def test_only_franz_go_names_itself_for_connections_without_a_name(library: str, code: int) -> None:
    """An aiokafka producer may have host and client id of another library's consumer."""
    other = Wire(Bench(max_message_size=50), software="").session.connection
    wire = Wire(Bench(max_message_size=50), software="")
    other.software, other.client_id = library, "app"
    wire.shared.client_gaps.named(other)
    publish(wire, {"t": batch(b"x" * 51, b"y", producer_id=5, sequence=0)})
    assert publish(wire, {"t": batch(b"ok", producer_id=5, sequence=2)})["t", 0][0] == code


def test_other_partitions_of_a_request_behind_a_gap_are_sent_again() -> None:
    wire = Wire(Bench(max_message_size=50))
    publish(wire, {"t": batch(b"x" * 51, b"y", producer_id=5, sequence=4)})
    small = batch(b"ok", producer_id=5, sequence=6)
    wire.client_sends(produce({"t": {0: small, 1: small}, "u": small}))
    (part,) = wire.forwarded()
    assert topics_of(part) == ["u"]
    wire.broker_sends(produced("u"))
    codes = {place: code for place, (code, _) in outcome(wire.answered()[0]).items()}
    assert codes == {("t", 0): 45, ("t", 1): 19, ("u", 0): 0}
    # What follows the one that is sent again must wait for it.
    later = batch(b"ok", producer_id=5, sequence=7)
    wire.client_sends(produce({"t": {1: later}}))
    assert outcome(wire.answered()[0])["t", 1][0] == 45
    wire.client_sends(produce({"t": {1: small}}))
    assert len(wire.forwarded()) == 1


def test_a_gap_belongs_to_one_client() -> None:
    wire = Wire(Bench(max_message_size=50))
    publish(wire, {"t": batch(b"x" * 51, b"y", producer_id=5, sequence=1)})
    other = Wire(Bench(), wire.shared, peer="10.0.0.9:5000")
    sent = produce({"t": batch(b"ok", producer_id=5, sequence=3)})
    other.client_sends(sent)
    assert other.upstream == sent
    assert len(wire.shared.client_gaps.by_client) == 1
    wire.client_sends(produce({"t": batch(b"ok", producer_id=5, sequence=1)}))
    assert not wire.shared.client_gaps.by_client


def test_a_topic_named_twice_closes_the_connection() -> None:
    wire = Wire(Bench())
    frame = produce({"a": batch(b"x"), "b": batch(b"y")})
    wire.client_sends(frame.replace(b"\x02b", b"\x02a"))
    assert wire.closed is not None
    assert "named twice" in wire.closed.detail
    assert wire.upstream == b""


def test_an_unsupported_version_of_a_policed_api_is_refused() -> None:
    wire = Wire(Bench())
    frame = bytearray(produce({"a": batch(b"x")}))
    frame[6:8] = (13).to_bytes(2, "big")
    wire.client_sends(bytes(frame))
    assert wire.upstream == b""
    assert wire.closed is not None or wire.downstream


@pytest.mark.parametrize("length", [0, -1, 7, 2**31 - 1])
def test_an_impossible_length_closes_the_connection(length: int) -> None:
    wire = Wire(Bench())
    wire.client_sends(length.to_bytes(4, "big", signed=True) + b"\0" * 20)
    assert wire.closed is not None
    assert wire.upstream == b""


def test_a_tls_hello_on_a_plain_port_is_named_as_such() -> None:
    wire = Wire(Bench())
    wire.client_sends(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 30)
    assert wire.closed is not None
    assert "TLS" in wire.closed.detail


def test_an_announced_frame_is_kept_within_the_budget() -> None:
    bench = Bench()
    bench.budget.limit = 1000
    wire = Wire(bench)
    wire.client_sends((100_000).to_bytes(4, "big") + b"\0" * 8 + b"\0" * 500)
    assert wire.session.frame_began_ns
    wire.client_sends(b"\0" * 600)
    assert wire.closed is not None
    wire.session.closed(wire.now)
    assert bench.budget.used == 0


def test_collected_responses_count_in_the_budget_and_its_end_is_named() -> None:
    bench = Bench()
    bench.budget.limit = 100
    wire = Wire(bench)
    wire.client_sends(produce({"a": batch(b"x")})[:50])
    assert bench.budget.used == 50
    wire.client_sends(produce({"a": batch(b"x")})[50:])
    wire.broker_sends((2_000).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\0" * 200)
    assert wire.closed is not None
    assert wire.closed.counter == "buffer_budget_used_up"
    wire.session.closed(wire.now)
    assert bench.budget.used == 0


def test_an_unexpected_response_closes_the_connection() -> None:
    wire = Wire(Bench())
    wire.client_sends(produce({"a": batch(b"x")}, correlation_id=5))
    wire.broker_sends(produced("a", correlation_id=6))
    assert wire.closed is not None
    assert wire.closed.counter == "malformed_response"


def test_a_producer_that_waits_to_attach_holds_nothing_once_its_client_is_closed() -> None:
    bench = Bench(connection_rate_limit=1)
    first = Wire(bench)
    first.client_sends(produce({"t": batch(b"x")}))
    second = Wire(bench, first.shared, peer="10.0.0.2:5000")
    second.client_sends(produce({"t": batch(b"x")}))
    held = first.shared.gate("t", False, first.now).state.broker.held
    assert (second.forwarded(), len(held)) == ([], 1)

    second.session.closed(second.now)

    assert len(held) == 0
