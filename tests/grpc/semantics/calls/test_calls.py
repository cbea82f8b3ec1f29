"""Which clients count, for how long, and the operation of a call."""

from dataclasses import replace

import pytest
from tests.grpc.lab import MAP, TOPIC, P
from tests.grpc.semantics.calls.lab import GHOST_NS, SECOND, Lab, method, opens, values

from sluicegate.model import Action, Method, MethodMap, Outcome, Role
from sluicegate.sessions.work import Until
from sluicegate_grpc.semantics.calls import Caller, LostPlace

# -- attaching ----------------------------------------------------------------------------------------


@pytest.mark.seed("S1-041")
def test_the_limit_admits_the_nth_and_refuses_the_next() -> None:
    lab = Lab(max_producers_per_topic=2)
    lab.producer("a", 1)
    lab.producer("b", 2)
    refused = lab.ask_producer("c").decision
    assert refused is not None
    assert (refused.action, refused.reasons[0].outcome) == (Action.REJECT, Outcome.LIMIT_REACHED)
    lab.producer("a", 1)
    assert lab.producers == 2


def test_a_refusal_by_the_broker_frees_the_place() -> None:
    lab = Lab(max_consumers_per_topic=1, max_subscriptions_per_topic=1)
    attaching = lab.ask_consumer("a")
    attaching.failed(0)
    attaching.failed(0)
    state = lab.gate().state
    assert (lab.consumers, state.subscription_count, len(lab.attachments)) == (0, 0, 0)
    lab.consumer("b", 1, subscription="t")


def test_a_failed_second_call_does_not_release_a_producer() -> None:
    for first_fails_first in (True, False):
        lab = Lab(max_producers_per_topic=1)
        first, second = lab.ask_producer("a"), lab.ask_producer("a", Caller("me", "peer:2"))
        if first_fails_first:
            first.failed(0)
            second.attached(1, 0)
        else:
            second.attached(1, 0)
            first.failed(0)
        assert lab.producers == 1
        assert lab.ask_producer("b").decision is not None


def test_a_subscription_stays_for_a_joined_consumer_when_its_creator_fails() -> None:
    lab = Lab(max_subscriptions_per_topic=1)
    first, second = lab.ask_consumer("a"), lab.ask_consumer("b")
    second.attached(2, 0)
    first.failed(0)
    assert lab.gate().state.subscription_count == 1


def test_a_held_attachment_is_decided_again_and_can_be_cancelled() -> None:
    lab = Lab(connection_rate_limit=1)
    lab.producer("a", 1)
    waiting = lab.ask_producer("b")
    assert isinstance(waiting.waits, Until)
    assert lab.producers == 1
    assert waiting.again(2 * SECOND) is None
    waiting.attached(2, 2 * SECOND)
    given_up = lab.ask_producer("c", now_ns=2 * SECOND)
    given_up.failed(2 * SECOND)
    assert (lab.producers, len(lab.attachments)) == (2, 2)


def test_a_call_that_is_closed_or_refused_leaves_nothing() -> None:
    lab = Lab(connection_rate_limit=1, max_producers_per_topic=1)
    lab.ask_producer("a").closed()
    waiting = lab.ask_producer("a")
    assert isinstance(waiting.waits, Until)
    waiting.closed()
    assert len(lab.attachments) == 0
    lab.producer("a", 1, now_ns=2 * SECOND)
    assert lab.ask_producer("b", now_ns=4 * SECOND).decision is not None
    assert (lab.producers, len(lab.attachments)) == (1, 1)


def test_each_nameless_producer_counts_anew() -> None:
    lab = Lab(max_producers_per_topic=2)
    lab.producer("", 1)
    lab.producer("", 2)
    assert lab.ask_producer("").decision is not None


def test_subscriptions_are_listed_before_a_new_one_and_then_cached() -> None:
    lab = Lab(list_valid_ns=SECOND, max_subscriptions_per_topic=1)
    attaching = lab.ask_consumer("a")
    assert (attaching.must_list, lab.consumers) == (True, 0)
    lab.attachments.listed(TOPIC, ["other"], 0, 0)
    refused = attaching.again(0)
    assert refused is not None
    assert refused.reasons[0].policy == "max_subscriptions_per_topic"
    assert not lab.ask_consumer("b", now_ns=SECOND).must_list
    assert lab.ask_consumer("b", now_ns=SECOND + 1).must_list


def test_unlisted_subscriptions_give_failed_precondition() -> None:
    lab = Lab(list_valid_ns=SECOND, max_subscriptions_per_topic=1)
    attaching = lab.ask_consumer("a")
    lab.attachments.listed(TOPIC, None, 0, 0)
    refused = attaching.again(0)
    assert refused is not None
    assert refused.reasons[0].outcome is Outcome.PRECONDITION


def test_exempt_callers_take_no_place() -> None:
    lab = Lab(max_producers_per_topic=1)
    lab.producer("a", 1, Caller("root", "peer:2", exempt=True))
    assert lab.producers == 0
    lab.producer("b", 2)
    assert lab.publish(1, Caller("root", "peer:2", exempt=True)) is None


def test_kept_attachments_are_bounded_and_released_ones_are_evicted() -> None:
    lab = Lab(limit=2)
    lab.producer("a", 1)
    lab.producer("b", 2)
    refused = lab.ask_producer("c").decision
    assert refused is not None
    assert refused.text.startswith("Attachment limit reached")
    assert lab.attachments.release_ghosts(GHOST_NS) == 2
    lab.producer("c", 3, now_ns=GHOST_NS)
    assert len(lab.attachments) == 2


# -- publishing ---------------------------------------------------------------------------------------


def test_an_operation_object_is_reused_until_it_is_held() -> None:
    lab = Lab(max_publish_rate=1, burst_seconds=2, on_limit__max_publish_rate="delay")
    lab.producer("a", 1)
    send, message = method("Send"), values(producer=1, payload=10)
    first, _ = lab.calls.publish(send, message, lab.me, 0)
    second, _ = lab.calls.publish(send, message, lab.me, 0)
    held, decision = lab.calls.publish(send, message, lab.me, 0)
    assert first is second is held
    assert decision is not None
    behind, decision = lab.calls.publish(send, message, lab.me, 0)
    assert behind is not held
    assert decision is not None
    lab.calls.abandon(held, lab.me, 0)
    assert lab.calls.publish_again(behind, lab.me, SECOND) is None


def test_a_publish_names_its_producer_and_client() -> None:
    lab = Lab()
    lab.producer("a", 1)
    lab.publish(1, Caller("other", "peer:2"))
    op = lab.sink.allows[-1]
    assert (op.principal, op.client, op.producer, op.bytes, op.largest) == ("other", "peer:2", "a", 10, 10)


def test_a_publish_is_refused_and_never_dropped() -> None:
    lab = Lab(max_publish_rate=1, on_limit__max_publish_rate="drop")
    lab.producer("a", 1, reliable=0)
    assert lab.publish(1) is None
    assert lab.publish(1).action is Action.REJECT


def test_an_unknown_id_is_lost_and_one_with_a_topic_attaches() -> None:
    lab = Lab(max_producers_per_topic=1)
    assert isinstance(lab.publish(9), LostPlace)
    assert lab.calls.unknown_ids == 1
    with_topic = replace(method("Send"), topic=(9,))
    message = values(producer=9, topic=TOPIC, payload=10)
    assert lab.calls.publish(with_topic, message, lab.me, 0)[1] is None
    assert lab.producers == 1
    message = values(producer=10, topic=TOPIC, payload=10)
    assert isinstance(lab.calls.publish(with_topic, message, lab.me, 0)[1], LostPlace)
    message = values(producer=9, topic="/default/other", payload=10)
    op, _ = lab.calls.publish(with_topic, message, lab.me, 0)
    assert op.topic == TOPIC  # whatever the message says: the id has a topic


def test_without_attach_calls_producers_count_by_topic_and_name() -> None:
    send = Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,))
    lab = Lab(MethodMap("service", {P + "Send": send}), max_producers_per_topic=1)

    def publish(topic: str, producer: str) -> object:
        return lab.calls.publish(send, values(topic=topic, producer=producer, payload=1), lab.me, 0)[1]

    assert publish(TOPIC, "a") is None
    assert publish(TOPIC, "a") is None
    assert publish("/default/other", "a") is None
    refused = publish(TOPIC, "b")
    assert refused is not None
    assert not isinstance(refused, LostPlace)
    assert publish(TOPIC, "") is None  # who says no name cannot be counted
    assert (lab.producers, len(lab.gate("/default/other").state.producers)) == (1, 1)


# -- staying and leaving ------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", ["publish", "touch", "nothing"])
def test_ghosts_are_attachments_silent_for_too_long(sign: str) -> None:
    lab = Lab()
    lab.producer("a", 1)
    if sign == "publish":
        lab.publish(1, now_ns=SECOND)
    elif sign == "touch":
        lab.calls.touch(1, lab.me, SECOND)
    assert lab.attachments.release_ghosts(GHOST_NS) == (sign == "nothing")
    assert lab.attachments.release_ghosts(GHOST_NS + SECOND) == (sign != "nothing")
    assert (lab.producers, lab.attachments.ghosts_released) == (0, 1)


def test_a_returning_ghost_is_checked_again() -> None:
    lab = Lab(max_producers_per_topic=1)
    lab.producer("a", 1)
    lab.attachments.release_ghosts(GHOST_NS)
    lab.producer("b", 2, now_ns=GHOST_NS)
    refused = lab.publish(1, now_ns=GHOST_NS)
    assert isinstance(refused, LostPlace)
    assert refused.text.startswith("Producer limit reached")
    lab.calls.detach(method("Leave"), values(attachment=2), lab.me, GHOST_NS)
    assert lab.publish(1, now_ns=GHOST_NS) is None
    assert lab.producers == 1


def test_an_open_stream_is_no_ghost() -> None:
    lab = Lab()
    lab.consumer("a", 1)
    stream = lab.calls.dispatching(method("Receive"), values(consumer=1), lab.me, 0)
    assert stream is not None
    assert lab.attachments.release_ghosts(100 * GHOST_NS) == 0
    stream.close(100 * GHOST_NS, has_left=False)
    assert lab.attachments.release_ghosts(101 * GHOST_NS) == 1


def test_a_closed_connection_releases_what_only_it_used() -> None:
    lab = Lab()
    other = Caller("me", "peer:2")
    lab.producer("a", 1)
    lab.producer("b", 2)
    lab.producer("b", 2, other)
    lab.consumer("c", 3)
    lab.attachments.caller_closed(lab.me, 0)
    assert (lab.producers, lab.consumers) == (1, 0)
    lab.attachments.caller_closed(other, 0)
    assert lab.producers == 0
    assert not lab.me.places
    assert not other.places


def _refs(lab: Lab, name: str = "a") -> tuple[int, int, int]:
    """What is kept of the connections of a producer: by the engine, and by its place."""
    (place,) = (each for each in lab.attachments.places if each.key[2] == name)
    return len(lab.gate().state.producers._refs[name]), len(place.refs), len(place.callers)


def test_closed_connections_leave_nothing_while_another_keeps_their_producer() -> None:
    lab = Lab()
    lab.producer("a", 1)
    for number in range(2, 50):
        other = Caller("me", f"peer:{number}")
        lab.producer("a", 1, other)
        lab.attachments.caller_closed(other, 0)
        assert _refs(lab) == (1, 1, 1)
    lab.attachments.caller_closed(lab.me, 0)
    assert (lab.producers, len(list(lab.attachments.places))) == (0, 1)


def test_a_connection_keeps_its_producer_until_its_last_principal_has_left() -> None:
    lab = Lab()
    callers = [Caller("me", "peer:1"), Caller("you", "peer:1"), Caller("me", "peer:2")]
    for caller in callers:
        lab.producer("a", 1, caller)
    lab.attachments.caller_closed(callers[0], 0)
    assert _refs(lab) == (2, 2, 2)
    lab.attachments.caller_closed(callers[1], 0)
    assert _refs(lab) == (1, 1, 1)


def test_connections_whose_end_nobody_tells_are_bounded() -> None:
    """A client connects anew again and again, and its producer is never silent."""
    lab = Lab(most_callers=3, max_producers_per_topic=1)
    pending = lab.ask_producer("a", Caller("me", "peer:0"))
    for number in range(1, 50):
        caller = Caller("me", f"peer:{number}")
        lab.producer("a", 1, caller)
        assert lab.publish(1, caller) is None
    assert _refs(lab) == (3, 3, 3)
    assert pending.attaching.caller.places
    pending.attached(1, 0)
    first = Caller("me", "peer:1")
    assert lab.publish(1, first) is None
    assert (lab.producers, _refs(lab)[2]) == (1, 3)
    assert lab.attachments.release_ghosts(GHOST_NS) == 1
    assert lab.producers == 0


def test_a_connection_that_closes_while_a_call_attaches_leaves_nothing() -> None:
    lab = Lab()
    attaching = lab.ask_producer("a")
    lab.attachments.caller_closed(lab.me, 0)
    attaching.failed(0)
    assert (lab.producers, len(lab.attachments)) == (0, 0)


# -- dispatch and acknowledgements --------------------------------------------------------------------


def test_a_stream_that_breaks_releases_its_consumer_and_one_that_ends_does_not() -> None:
    for has_left in (True, False):
        lab = Lab()
        lab.consumer("a", 1)
        stream = lab.calls.dispatching(method("Receive"), values(consumer=1), lab.me, 0)
        assert stream is not None
        stream.close(0, has_left=has_left)
        stream.close(0)
        assert lab.consumers == (0 if has_left else 1)


def test_a_stream_that_is_refused_serves_nobody() -> None:
    lab = Lab(max_consumers_per_topic=1)
    lab.consumer("a", 1)
    lab.attachments.release_ghosts(GHOST_NS)
    lab.consumer("b", 2, now_ns=GHOST_NS)
    stream = lab.calls.dispatching(method("Receive"), values(consumer=1), lab.me, GHOST_NS)
    assert stream is not None
    assert not opens(stream, GHOST_NS)
    assert [place.in_use for place in lab.attachments.places] == [False, False]


def test_a_consumer_with_two_streams_stays_with_one() -> None:
    lab = Lab()
    lab.consumer("a", 1)
    streams = [lab.calls.dispatching(method("Receive"), values(consumer=1), lab.me, 0) for _ in range(2)]
    for stream, left in zip(streams, (1, 0), strict=True):
        assert stream is not None
        stream.close(0)
        assert lab.consumers == left


def test_a_reliable_topic_stays_reliable() -> None:
    lab = Lab()
    assert lab.attachments.topics.is_reliable(TOPIC)
    lab.producer("a", 1, reliable=0)
    assert not lab.attachments.topics.is_reliable(TOPIC)
    lab.producer("b", 2, reliable=1)
    lab.producer("c", 3, reliable=0)
    assert lab.attachments.topics.is_reliable(TOPIC)


def test_a_redelivered_message_counts_once_for_its_current_consumer() -> None:
    lab = Lab(max_unacked_messages_per_consumer=2)
    told = []
    streams = {}
    for name, called in (("a", 1), ("b", 2)):
        lab.consumer(name, called)
        streams[name] = lab.calls.dispatching(method("Receive"), values(consumer=called), lab.me, 0)

    def deliver(to: str, position: int) -> bool:
        stream = streams[to]
        assert stream is not None
        gate = stream.gate(0)
        assert stream.counts_unacked(gate)
        return stream.decide(gate, values(position=position, payload=10), 10, 0) is None

    assert [deliver("a", 1), deliver("a", 2), deliver("a", 3)] == [True, True, False]
    assert deliver("a", 1)
    assert lab.unacked == {"a": 2}
    assert deliver("b", 2)
    assert lab.unacked == {"a": 1, "b": 1}
    stream = streams["b"]
    assert stream is not None
    stream.on_acknowledged(lambda: told.append("b"))
    acknowledge = values(topic=TOPIC, subscription="s", position=2)
    lab.calls.acknowledge(method("Ack"), acknowledge, lab.me, 0)
    lab.calls.acknowledge(method("Ack"), acknowledge, lab.me, 0)
    assert (lab.unacked, told) == ({"a": 1}, ["b"])
    assert deliver("a", 4)
    assert lab.unacked == {"a": 2}
    closing = streams["a"]
    assert closing is not None
    closing.close(0)
    assert lab.unacked == {}


def test_a_producer_of_one_topic_cannot_publish_to_another() -> None:
    """Danube goes by the topic that the message names, others by the producer's: no policy can be chosen."""
    methods = {**MAP.methods, P + "Send": Method(Role.PUBLISH, topic=(3,), producer=(1,), payload=(2,))}
    lab = Lab(replace(MAP, methods=methods))
    lab.producer("a", 1)
    send = methods[P + "Send"]
    for topic, passes in ((TOPIC, True), ("", True), ("/default/other", False)):
        decision = lab.calls.publish(send, values(topic=topic, producer=1, payload=5), lab.me, 0)[1]
        assert (decision is None) == passes
    assert isinstance(decision, LostPlace)
    assert "/default/other" in decision.text


def test_a_subscription_is_kept_if_its_creator_left_before_the_response() -> None:
    lab = Lab(list_valid_ns=SECOND, max_subscriptions_per_topic=1)
    lab.attachments.listed(TOPIC, [], 0, 0)
    lab.ask_consumer("a").failed(is_known=False)
    assert lab.consumers == 0
    second = lab.ask_consumer("b", subscription="t")
    assert second.must_list
    lab.attachments.listed(TOPIC, ["s"], 1, 1)
    refused = second.again(1)
    assert refused is not None
    assert refused.reasons[0].policy == "max_subscriptions_per_topic"
    third = lab.ask_consumer("c", subscription="t", now_ns=3 * SECOND)
    assert third.must_list
    lab.attachments.listed(TOPIC, [], 3 * SECOND, 3 * SECOND)
    assert third.again(3 * SECOND) is None
