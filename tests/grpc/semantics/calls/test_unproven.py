"""Producers that publish by an id unknown to this gateway: they count until the broker has answered."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.grpc.lab import MAP, TOPIC, P
from tests.grpc.semantics.calls.lab import GHOST_NS, SECOND, Lab, method, values

from sluicegate.model import Action, Method, Role
from sluicegate_grpc.semantics.calls import UNNAMED, Caller, LostPlace

SEND = Method(Role.PUBLISH, topic=(3,), producer=(1,), name=(4,), payload=(2,))
REPLICATE = Method(Role.PUBLISH, topic=(1,), batch=(2,), payload=(2, 1), by_connection=True)
METHODS = replace(MAP, methods={**MAP.methods, P + "Send": SEND, P + "Replicate": REPLICATE})


def send(lab: Lab, called: int, name: str | None = "", caller: Caller | None = None) -> object:
    found = values(topic=TOPIC, producer=called, name=name, payload=10)
    return lab.calls.publish(SEND, found, caller or lab.me, 0)[1]


def test_the_name_is_read_only_for_an_unknown_id() -> None:
    lab = Lab(METHODS)
    assert send(lab, 7, None) is UNNAMED
    assert lab.producers == 0
    assert send(lab, 7, "p") is None
    assert send(lab, 7, None) is None


def test_its_name_identifies_a_producer_after_a_restart() -> None:
    lab = Lab(METHODS, max_producers_per_topic=1)
    assert send(lab, 7, "p") is None
    lab.attachments.claim_resolved(7, 0, is_known=True)
    lab.producer("p", 7)
    assert send(lab, 7) is None
    assert lab.producers == 1
    assert lab.ask_producer("q").decision is not None


def test_without_a_name_the_id_identifies_the_producer() -> None:
    lab = Lab(METHODS)
    assert send(lab, 7) is None
    lab.attachments.claim_resolved(7, 0, is_known=True)
    lab.producer("p", 7)
    assert lab.producers == 1


def test_an_id_that_the_broker_does_not_know_holds_no_place() -> None:
    lab = Lab(METHODS, max_producers_per_topic=1)
    for called in range(1, 50):
        assert send(lab, called) is None
        assert isinstance(send(lab, 1_000), LostPlace)
        lab.attachments.claim_resolved(called, 0, is_known=False)
    assert (lab.producers, len(lab.attachments), len(lab.attachments.unconfirmed)) == (0, 0, 0)


def test_a_false_name_neither_takes_nor_releases_the_owners_place() -> None:
    lab = Lab(METHODS, max_producers_per_topic=1)
    lab.producer("p", 7)
    thief = Caller("thief", "peer:2")
    assert send(lab, 8, "p", thief) is None
    lab.attachments.claim_resolved(8, 0, is_known=False)
    assert (lab.producers, len(thief.places)) == (1, 0)
    lab.attachments.caller_closed(thief, 0)
    assert send(lab, 7) is None
    assert send(lab, 8, None) is UNNAMED
    lab.attachments.caller_closed(lab.me, 0)
    assert lab.producers == 0


def test_a_false_name_claimed_first_does_not_displace_its_owner() -> None:
    lab = Lab(METHODS, max_producers_per_topic=1)
    thief = Caller("thief", "peer:2")
    assert send(lab, 8, "p", thief) is None
    lab.producer("p", 7)
    lab.attachments.claim_resolved(8, 0, is_known=False)
    assert send(lab, 7) is None
    assert lab.producers == 1


@pytest.mark.parametrize("how", ["refused", "given up", "refused later"])
def test_an_unconfirmed_producer_whose_message_is_not_forwarded_holds_no_place(how: str) -> None:
    policies: dict[str, Any] = {"max_producers_per_topic": 1, "max_publish_rate": 1, "burst_seconds": 1}
    lab = Lab(METHODS, on_limit__max_publish_rate="reject" if how == "refused" else "delay", **policies)
    lab.producer("p", 7)
    assert send(lab, 7) is None  # the rate is used up
    lab.calls.detach(method("Leave"), values(attachment=7), lab.me, 0)
    found = values(topic=TOPIC, producer=8, name="q", payload=10)
    op, decision = lab.calls.publish(SEND, found, lab.me, 0)
    assert decision is not None
    if how == "given up":
        lab.calls.abandon(op, lab.me, 0)
    elif how == "refused later":
        lab.policies["max_message_size"] = 1
        lab._gates.clear()
        assert lab.calls.publish_again(op, lab.me, 0) is not None
        lab.calls.abandon(op, lab.me, 0)
    assert (lab.producers, len(lab.attachments.unconfirmed)) == (0, 0)


def test_a_producer_created_again_before_the_response_stays_with_its_connection() -> None:
    lab = Lab(METHODS, max_producers_per_topic=1)
    assert send(lab, 7, "p") is None
    lab.producer("p", 8)
    lab.attachments.claim_resolved(7, 0, is_known=False)
    assert lab.producers == 1
    lab.attachments.caller_closed(lab.me, 0)
    assert lab.producers == 0


def test_a_connection_that_closes_before_the_response_frees_the_place() -> None:
    lab = Lab(METHODS)
    assert send(lab, 7, "p") is None
    lab.attachments.caller_closed(lab.me, 0)
    assert (lab.producers, len(lab.attachments.unconfirmed)) == (0, 0)


def test_a_producer_that_waits_for_its_response_is_not_silent() -> None:
    lab = Lab(METHODS)
    assert send(lab, 7, "p") is None
    assert lab.attachments.release_ghosts(2 * GHOST_NS) == 0
    lab.attachments.claim_resolved(7, 2 * GHOST_NS, is_known=True)
    assert lab.attachments.release_ghosts(4 * GHOST_NS) == 1
    assert lab.producers == 0


def test_a_closing_connection_releases_all_ids_of_its_producer() -> None:
    lab = Lab(METHODS, max_producers_per_topic=1)
    assert send(lab, 3, "p") is None
    assert send(lab, 1, "p") is None
    lab.attachments.claim_resolved(3, 0, is_known=False)
    assert lab.producers == 1  # id 1 may still be the producer
    lab.attachments.caller_closed(lab.me, 0)
    assert (lab.producers, len(lab.attachments.unconfirmed)) == (0, 0)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["send", "create", "known", "unknown", "gone", "ghosts"]),
            st.integers(1, 3),
            st.sampled_from(["", "p", "q"]),
            st.integers(0, 1),
        )
    )
)
def test_any_order_of_events_leaves_nothing_behind(
    steps: list[tuple[str, int, str, int]],
) -> None:
    lab = Lab(METHODS, max_producers_per_topic=2)
    callers = [Caller("me", "peer:1"), Caller("me", "peer:2")]
    now_ns = 0
    for what, called, name, which in steps:
        now_ns += 1
        if what == "send":
            send(lab, called, name, callers[which])
        elif what == "create" and name:
            attaching = lab.ask_producer(name, callers[which], now_ns)
            if attaching.decision is None:
                attaching.attached(called, now_ns)
        elif what in ("known", "unknown"):
            lab.attachments.claim_resolved(called, now_ns, is_known=what == "known")
        elif what == "gone":
            lab.attachments.caller_closed(callers[which], now_ns)
        elif what == "ghosts":
            now_ns += GHOST_NS
            lab.attachments.release_ghosts(now_ns)
        assert lab.producers <= 2
    for caller in callers:
        lab.attachments.caller_closed(caller, now_ns)
    lab.attachments.release_ghosts(now_ns + 2 * GHOST_NS)
    assert (lab.producers, len(lab.attachments.unconfirmed)) == (0, 0)
    assert not any(place.uses.pending or place.is_counted for place in lab.calls._places)


def test_a_replicating_connection_is_one_producer_per_topic() -> None:
    lab = Lab(METHODS, max_producers_per_topic=1)
    other = Caller("me", "peer:2")

    def replicate(topic: str, caller: Caller, called: str = "") -> object:
        found = values(topic=topic, messages=3, payload=30, largest=20)
        return lab.calls.publish(REPLICATE, found, caller, 0)[1]

    assert replicate(TOPIC, lab.me) is None
    assert replicate(TOPIC, lab.me) is None
    op = lab.sink.allows[-1]
    assert (op.messages, op.bytes, op.largest, lab.producers) == (3, 30, 20, 1)
    refused = replicate(TOPIC, other)
    assert refused is not None
    assert not isinstance(refused, LostPlace)
    assert replicate("/default/other", other) is None
    lab.attachments.caller_closed(lab.me, 0)
    assert replicate(TOPIC, other) is None
    called = lab.calls.unconfirmed_by(REPLICATE, values(topic=TOPIC), other)
    assert called is not None
    lab.attachments.claim_resolved(called, 0, is_known=False)
    assert lab.producers == 0


def test_a_connection_that_attaches_too_fast_is_refused_and_counts_when_it_comes_again() -> None:
    """Its first messages attach it: what was delayed as an attachment would go on as a publish of nothing."""
    lab = Lab(METHODS, connection_rate_limit=1, max_producers_per_topic=2, max_publish_rate=1_000)
    batch = values(topic=TOPIC, payload=1_000, messages=100, largest=10)
    edges = [Caller("edge", f"peer:{number}") for number in range(3)]
    assert lab.calls.publish(REPLICATE, batch, edges[0], 0)[1] is None
    decision = lab.calls.publish(REPLICATE, batch, edges[1], 0)[1]
    assert decision is not None
    assert (decision.action, decision.reasons[0].policy) == (Action.REJECT, "connection_rate_limit")
    op, decision = lab.calls.publish(REPLICATE, batch, edges[1], 2 * SECOND)
    assert (decision, op.messages, lab.producers) == (None, 100, 2)
    decision = lab.calls.publish(REPLICATE, batch, edges[2], 4 * SECOND)[1]
    assert decision is not None
    assert decision.reasons[0].policy == "max_producers_per_topic"
