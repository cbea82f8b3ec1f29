"""Limits of consumers and subscriptions, and when a place is free again."""

import pytest
from tests.pulsar.session.deliveries import (
    EXCLUSIVE,
    KEY_SHARED,
    SHARED,
    attach,
    delivered,
    failure,
    flow,
    message,
    permits,
    refused,
    state_of,
    subscribe,
    success,
)
from tests.pulsar.session.messages import TOPIC, TYPES, frame
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.session.shared.subscriptions import ListSubscriptions

ASKED = ListSubscriptions(TOPIC)


def answer_list(wire: Wire, *names: str) -> None:
    """The admin API tells the subscriptions of the topic."""
    state = wire.shared.gates.state(wire.shared.gates.states[TOPIC].topic, wire.now)
    wire.shared.subscriptions.learned(state, names, wire.now, wire.now)
    wire.front_answers(ASKED)


@pytest.mark.seed("S1-003", "S1-037")
def test_consumers_of_a_topic_are_limited() -> None:
    wire = Wire(Bench(max_consumers_per_topic=2))
    attach(wire, 0, 1, subscription="a")
    attach(wire, 1, 2, subscription="b")
    wire.client_sends(subscribe(2, 3, subscription="a"))
    code, text = refused(wire)
    assert (code, text.split(" [")[0]) == (pb.CONSUMER_BUSY, "Topic reached max consumers limit")
    assert wire.upstream == b""
    assert wire.closed is None


@pytest.mark.seed("S1-004", "S1-038")
def test_consumers_of_a_subscription_are_limited() -> None:
    wire = Wire(Bench(max_consumers_per_subscription=1))
    attach(wire, 0, 1)
    wire.client_sends(subscribe(1, 2))
    code, text = refused(wire)
    assert (code, text.split(" [")[0]) == (pb.CONSUMER_BUSY, "Subscription reached max consumers limit")
    attach(wire, 2, 3, subscription="other")


@pytest.mark.seed("S1-043")
@pytest.mark.parametrize("how", ["refused by the broker", "client closes", "broker closes", "unsubscribes"])
def test_a_detached_consumer_frees_its_place(how: str) -> None:
    wire = Wire(Bench(max_consumers_per_topic=1))
    wire.client_sends(subscribe())
    if how == "refused by the broker":
        wire.broker_sends(failure())
        assert refused(wire) == (pb.CONSUMER_BUSY, "no")
    else:
        wire.broker_sends(success())
    if how == "client closes":
        wire.client_sends(frame("close_consumer", consumer_id=0, request_id=2))
    elif how == "broker closes":
        wire.broker_sends(frame("close_consumer", consumer_id=0, request_id=2**64 - 1))
    elif how == "unsubscribes":
        wire.client_sends(frame("unsubscribe", consumer_id=0, request_id=2))
        assert state_of(wire).consumer_count == 1
        wire.broker_sends(success(2))
        assert state_of(wire).subscription_count == 0
    assert state_of(wire).consumer_count == 0
    wire.sent_up()
    wire.sent_down()
    attach(wire, 1, 3)


def test_the_end_of_a_connection_frees_its_places() -> None:
    wire = Wire(Bench(max_consumers_per_topic=1))
    attach(wire)
    other = Wire(Bench(), wire.shared, peer="10.0.0.2:5000")
    other.client_sends(subscribe())
    assert refused(other)[0] == pb.CONSUMER_BUSY
    wire.close()
    attach(other)


def test_an_unsubscribe_that_fails_changes_nothing() -> None:
    wire = Wire(Bench(max_consumers_per_topic=1))
    attach(wire)
    wire.client_sends(frame("unsubscribe", consumer_id=0, request_id=2))
    wire.broker_sends(failure(2))
    assert (state_of(wire).consumer_count, state_of(wire).subscription_count) == (1, 1)


@pytest.mark.seed("S1-002", "S1-034")
def test_a_new_subscription_is_refused_at_the_limit_and_an_existing_one_never() -> None:
    wire = Wire(Bench(max_subscriptions_per_topic=1))
    wire.client_sends(subscribe(0, 1, subscription="old"))
    assert wire.asked == [ASKED]
    assert wire.upstream == b""
    answer_list(wire, "old")
    assert [each.type for each in wire.forwarded()] == [TYPES.SUBSCRIBE]
    wire.broker_sends(success(1))
    wire.sent_down()
    wire.client_sends(subscribe(1, 2, subscription="new"))
    code, text = refused(wire)
    assert code == pb.NOT_ALLOWED_ERROR
    assert text.startswith(f"Exceed the maximum number of subscriptions of the topic: {TOPIC}")
    attach(wire, 2, 3, subscription="old")
    assert state_of(wire).subscription_count == 1


def test_the_list_of_subscriptions_is_fetched_once_a_second_at_most() -> None:
    wire = Wire(Bench(max_subscriptions_per_topic=1))
    for number in range(3):
        wire.client_sends(subscribe(number, number, subscription=f"s{number}"))
    assert wire.asked == [ASKED]
    answer_list(wire, "old")
    assert [each.error.request_id for each in wire.answered()] == [0, 1, 2]
    wire.wait(1.1)
    wire.client_sends(subscribe(5, 5, subscription="again"))
    assert wire.asked == [ASKED, ASKED]


@pytest.mark.parametrize(
    ("on_unknown", "code"), [("pause", pb.SERVICE_NOT_READY), ("open", None), ("last", None)]
)
def test_on_unknown_decides_without_a_listing(on_unknown: str, code: int | None) -> None:
    options = {"on_unknown.max_subscriptions_per_topic": on_unknown}
    wire = Wire(Bench(options, max_subscriptions_per_topic=1))
    wire.client_sends(subscribe())
    wire.front_answers(ASKED, ConnectionError("down"))
    if code is None:
        assert [each.type for each in wire.forwarded()] == [TYPES.SUBSCRIBE]
    else:
        assert refused(wire)[0] == code
        assert wire.upstream == b""


def test_a_subscription_refused_by_the_broker_does_not_count() -> None:
    wire = Wire(Bench())
    wire.client_sends(subscribe())
    assert state_of(wire).subscription_count == 1
    wire.broker_sends(failure())
    assert state_of(wire).subscription_count == 0


def test_a_reader_leaves_no_subscription_behind() -> None:
    wire = Wire(Bench())
    attach(wire, 0, 1, subscription="reader-1", kind=EXCLUSIVE, durable=False)
    attach(wire, 1, 2, subscription="durable")
    for number in (0, 1):
        wire.client_sends(frame("close_consumer", consumer_id=number, request_id=10 + number))
    assert [known.name for known in state_of(wire).subscriptions.values() if known.exists] == ["durable"]


@pytest.mark.seed("S1-091")
def test_attaching_over_the_connection_rate_waits_its_turn() -> None:
    wire = Wire(Bench(connection_rate_limit=1))
    attach(wire)
    wire.client_sends(subscribe(1, 2))
    assert (wire.upstream, wire.downstream) == (b"", b"")
    # What else the client has to say goes on meanwhile.
    wire.client_sends(frame("ping"))
    assert [each.type for each in wire.forwarded()] == [TYPES.PING]
    wire.wait(1.1)
    assert [each.subscribe.consumer_id for each in wire.forwarded()] == [1]
    assert wire.session.held_bytes == 0


def test_attaching_is_held_at_most_max_hold() -> None:
    wire = Wire(Bench(connection_rate_limit=0.01), max_hold="2s")
    attach(wire)
    wire.client_sends(subscribe(1, 2, subscription="new"))
    wire.wait(1.9)
    assert wire.downstream == b""
    wire.wait(0.2)
    assert refused(wire)[0] == pb.SERVICE_NOT_READY
    assert state_of(wire).subscription_count == 1
    assert (wire.session.held_bytes, wire.shared.budget.used) == (0, 0)
    assert wire.shared.counts["subscribe_hold_timed_out"] == 1


def test_a_cancelled_held_request_is_never_forwarded() -> None:
    wire = Wire(Bench(connection_rate_limit=1))
    attach(wire)
    wire.client_sends(subscribe(1, 2, subscription="new"))
    wire.client_sends(frame("close_consumer", consumer_id=1, request_id=3))
    assert [each.type for each in wire.forwarded()] == [TYPES.CLOSE_CONSUMER]
    wire.wait(3)
    assert wire.upstream == b""
    assert state_of(wire).subscription_count == 1
    assert wire.session.held_bytes == 0


def test_a_held_request_of_a_disconnected_client_releases_everything() -> None:
    wire = Wire(Bench(connection_rate_limit=1))
    attach(wire)
    wire.client_sends(subscribe(1, 2, subscription="new"))
    wire.close()
    assert (wire.shared.budget.used, state_of(wire).consumer_count) == (0, 0)


def test_a_request_that_cannot_be_held_is_refused() -> None:
    bench = Bench(connection_rate_limit=1)
    wire = Wire(bench)
    attach(wire)
    bench.budget.limit = 10
    wire.client_sends(subscribe(1, 2, subscription="new"))
    code, text = refused(wire)
    assert code == pb.SERVICE_NOT_READY
    assert "too many bytes are held" in text
    assert state_of(wire).subscription_count == 1


@pytest.mark.parametrize("kind", [SHARED, EXCLUSIVE, KEY_SHARED, pb.Subscribe.FAILOVER])
def test_without_policies_everything_passes_unchanged(kind: int) -> None:
    wire = Wire(Bench(max_consumers_per_topic=5))
    attach(wire, kind=kind)
    up = [flow(1000), frame("get_last_message_id", consumer_id=0, request_id=4)]
    down = [message(1), message(2), message(3)]
    wire.client_sends(*up)
    wire.broker_sends(*down)
    assert wire.sent_up() == up
    assert wire.sent_down() == down


def test_unpoliced_messages_form_one_run() -> None:
    wire = Wire(Bench(max_publish_rate=1, max_consumers_per_topic=5))
    attach(wire)
    wire.commands.clear()
    wire.broker_sends(*[message(number) for number in range(100)])
    assert len(wire.commands) == 1


def test_a_later_policy_applies_to_existing_consumers() -> None:
    bench = Bench()
    wire = Wire(bench)
    attach(wire)
    wire.broker_sends(message(1))
    bench.set(max_dispatch_rate=1)
    wire.broker_sends(message(2), message(3))
    assert delivered(wire) == [1, 2]
    bench.set()
    wire.broker_sends(message(4))
    assert delivered(wire) == [3, 4]
    wire.broker_sends(message(5))
    assert delivered(wire) == [5]
    assert wire.session.held_bytes == 0


def test_other_consumers_of_the_connection_are_not_held() -> None:
    bench = Bench()
    bench.set_topic(TOPIC, max_dispatch_rate=1)
    wire = Wire(bench)
    attach(wire, 0, 1)
    attach(wire, 1, 2, topic="persistent://public/default/other")
    wire.broker_sends(
        message(1), message(2), message(3, consumer_id=1), message(4), message(5, consumer_id=1)
    )
    assert delivered(wire) == [1, 3, 5]
    wire.wait(2.1)
    assert delivered(wire) == [2, 4]


def test_exempt_principals_are_not_counted_nor_held() -> None:
    bench = Bench(max_consumers_per_topic=1, max_dispatch_rate=1)
    bench.exempt = frozenset({"ANONYMOUS"})
    bench.set(max_consumers_per_topic=1, max_dispatch_rate=1)
    wire = Wire(bench)
    attach(wire, 0, 1)
    attach(wire, 1, 2)
    wire.broker_sends(message(1), message(2), message(3))
    assert delivered(wire) == [1, 2, 3]


# -- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["", "a/b", "ftp://public/default/x", "persistent://x"])
def test_an_invalid_topic_is_refused(topic: str) -> None:
    wire = Wire(Bench())
    wire.client_sends(subscribe(topic=topic))
    assert refused(wire)[0] == pb.INVALID_TOPIC_NAME
    attach(wire, 1, 2)


def test_the_name_of_a_subscription_is_as_long_as_that_of_a_topic_at_most() -> None:
    wire = Wire(Bench())
    wire.client_sends(subscribe(0, 1, subscription="n" * 1_024), subscribe(1, 2, subscription="n" * 1_025))
    assert [command.subscribe.request_id for command in wire.forwarded()] == [1]
    assert refused(wire) == (pb.NOT_ALLOWED_ERROR, "a name of 1025 characters, expected at most 1024")


@pytest.mark.parametrize("fields", [b"", b"\x18\x09"])
def test_unknown_subscription_types_are_refused(fields: bytes) -> None:
    whole = subscribe(kind=None)
    raw = whole[8:] if not fields else whole[8:10] + b"\x22" + bytes([len(whole) - 12 + len(fields)])
    if fields:
        raw += whole[12:] + fields
    data = (len(raw) + 4).to_bytes(4, "big") + len(raw).to_bytes(4, "big") + raw
    wire = Wire(Bench())
    wire.client_sends(data)
    code, text = refused(wire)
    assert code == pb.NOT_ALLOWED_ERROR
    assert "unknown subscription type" in text
    attach(wire, 1, 2)


def test_a_consumer_id_in_use_is_refused_for_another_topic() -> None:
    wire = Wire(Bench())
    attach(wire)
    wire.client_sends(subscribe(0, 2, topic="persistent://public/default/other"))
    code, text = refused(wire)
    assert (code, text) == (pb.NOT_ALLOWED_ERROR, "consumer id 0 is in use on this connection")
    # The same one again is for the broker to answer.
    wire.client_sends(subscribe(0, 3))
    assert [each.subscribe.request_id for each in wire.forwarded()] == [3]
    assert state_of(wire).consumer_count == 1


def test_two_requests_with_one_id_close_their_client() -> None:
    wire = Wire(Bench())
    wire.client_sends(subscribe(0, 1), subscribe(1, 1))
    assert wire.closed is not None
    assert wire.closed.counter == "malformed_frame"
    wire.close()
    assert state_of(wire).consumer_count == 0


def test_frames_for_unknown_consumers_pass() -> None:
    wire = Wire(Bench(max_dispatch_rate=1, max_unacked_messages_per_consumer=5))
    attach(wire)
    up = [flow(5, consumer_id=9), frame("ack", consumer_id=9), frame("seek", consumer_id=9, request_id=8)]
    wire.client_sends(*up)
    assert wire.sent_up() == up
    wire.broker_sends(message(1, consumer_id=9), message(2, consumer_id=9))
    assert delivered(wire) == [1, 2]


@pytest.mark.parametrize("number", [0, 2**31, 2**32 - 1])
def test_invalid_permits_close_their_client(number: int) -> None:
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire)
    wire.client_sends(flow(number))
    assert wire.closed is not None
    assert f"FLOW of {number} permits" in wire.closed.detail


def test_consumers_per_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate_pulsar.session.consumers.consuming._MAX_CONSUMERS", 2)
    wire = Wire(Bench())
    attach(wire, 0, 1)
    attach(wire, 1, 2)
    wire.client_sends(subscribe(2, 3))
    assert refused(wire)[0] == pb.TOO_MANY_REQUESTS


def test_unreadable_metadata_passes_unchanged() -> None:
    whole = message(1)
    start = whole.index(b"\n\x01p")
    broken = whole[:start] + b"\xff" + whole[start + 1 :]
    wire = Wire(Bench(max_dispatch_rate=1))
    attach(wire)
    wire.broker_sends(broken)
    assert wire.sent_down() == [broken]
    wire.broker_sends(message(2), broken, message(3))
    assert wire.shared.counts["unreadable_message_passed"] == 2
    wire.client_sends(flow(500))
    assert permits(wire) == 500


def test_a_moved_consumer_gets_the_gateways_address() -> None:
    wire = Wire(Bench())
    attach(wire)
    wire.broker_sends(
        frame(
            "close_consumer",
            consumer_id=0,
            request_id=2**64 - 1,
            assigned_broker_service_url="pulsar://evil:1",
        )
    )
    (answer,) = wire.answered()
    assert answer.close_consumer.assigned_broker_service_url == ""
    assert state_of(wire).consumer_count == 0
