"""A topic moves to another broker: counts, remaining state, and the decision log."""

import pytest
from tests.grpc.lab import TOPIC
from tests.grpc.semantics.calls.lab import Lab, method, opens, values

from sluicegate.model import Action, OperationKind
from sluicegate_grpc.semantics.calls import Caller
from sluicegate_grpc.semantics.calls.owners import _MAX_TOPICS


@pytest.mark.seed("S3-018")
def test_attachments_at_the_old_owner_no_longer_count() -> None:
    lab = Lab(max_producers_per_topic=1)
    owners = lab.attachments.owners
    owners.learned(TOPIC, "a:1", 0)
    lab.producer("ghost", 7)
    assert lab.ask_producer("new", Caller("me", "peer:2")).decision is not None
    owners.learned(TOPIC, "b:1", 1)
    assert (lab.producers, owners.changes, owners.released) == (0, 1, 1)
    lab.producer("new", 8, Caller("me", "peer:2"))
    # one that was alive all the time attaches again by its next message, if there is room
    _, decision = lab.calls.publish(method("Send"), values(topic=TOPIC, producer=7, payload=1), lab.me, 2)
    assert decision is not None
    assert decision.action is Action.REJECT
    assert lab.producers == 1


def test_the_first_and_repeated_owners_change_nothing() -> None:
    lab = Lab(max_producers_per_topic=1)
    lab.producer("p", 7)
    for _ in range(3):
        lab.attachments.owners.learned(TOPIC, "a:1", 0)
    assert (lab.producers, lab.attachments.owners.changes) == (1, 0)
    assert not [each for each in lab.sink.records if each.op.kind is OperationKind.OWNER_CHANGED]


def test_other_topics_stay_unchanged() -> None:
    lab = Lab(max_producers_per_topic=1)
    lab.producer("p", 7)
    for owner in ("a:1", "b:1"):
        lab.attachments.owners.learned("another", owner, 0)
    assert lab.producers == 1


def test_the_decision_log_has_a_row_for_each_change() -> None:
    lab = Lab()
    for owner in ("a:1", "b:1", "b:1", "a:1"):
        lab.attachments.owners.learned(TOPIC, owner, 5)
    rows = [each for each in lab.sink.records if each.op.kind is OperationKind.OWNER_CHANGED]
    assert [(row.op.topic, row.op.client) for row in rows] == [(TOPIC, "a:1 -> b:1"), (TOPIC, "b:1 -> a:1")]
    assert all(row.decision is not None and row.decision.action is Action.ALLOW for row in rows)


def test_an_attaching_producer_keeps_its_place() -> None:
    """The broker's answer is on its way, and may be the new owner's."""
    lab = Lab(max_producers_per_topic=1)
    lab.attachments.owners.learned(TOPIC, "a:1", 0)
    attaching = lab.ask_producer("p")
    lab.attachments.owners.learned(TOPIC, "b:1", 1)
    attaching.attached(7, 2)
    assert lab.producers == 1


def test_a_stream_of_the_old_owner_does_not_release_the_place_at_the_new_one() -> None:
    lab = Lab(max_consumers_per_topic=1)
    lab.attachments.owners.learned(TOPIC, "a:1", 0)
    lab.consumer("c", 9)
    stream = lab.calls.dispatching(method("Receive"), values(consumer=9), lab.me, 0)
    assert stream is not None
    assert opens(stream, 0)
    lab.attachments.owners.learned(TOPIC, "b:1", 1)
    assert lab.consumers == 0
    other = Caller("me", "peer:2")
    lab.consumer("c", 10, other)
    again = lab.calls.dispatching(method("Receive"), values(consumer=10), other, 2)
    assert again is not None
    assert opens(again, 2)
    stream.close(3)
    assert lab.consumers == 1
    lab.attachments.caller_closed(lab.me, 4)
    assert lab.consumers == 1


def test_the_list_of_subscriptions_becomes_stale() -> None:
    lab = Lab(list_valid_ns=10**12, max_subscriptions_per_topic=1)
    lab.attachments.owners.learned(TOPIC, "a:1", 0)
    attaching = lab.ask_consumer("c")
    assert attaching.must_list
    lab.attachments.listed(TOPIC, ["s"], 0, 1)
    assert not lab.ask_consumer("c").must_list
    lab.attachments.listed(TOPIC, [], 2, 2)
    lab.attachments.owners.learned(TOPIC, "b:1", 3)
    assert lab.ask_consumer("d", subscription="other").must_list


def test_the_number_of_kept_topics_is_bounded() -> None:
    lab = Lab()
    owners = lab.attachments.owners
    for number in range(_MAX_TOPICS + 1):
        owners.learned(f"t{number}", "a:1", 0)
        owners.learned("t0", "a:1", 0)  # looked up all the time
    assert (owners.owner("t0"), owners.owner("t1"), owners.owner("t2")) == ("a:1", "", "a:1")
    assert len(owners._owners) == _MAX_TOPICS


def moved(lab: Lab, at_ns: int) -> None:
    lab.attachments.owners.learned(TOPIC, f"owner:{at_ns}", at_ns)


def lab_that_keeps() -> Lab:
    """A producer at a topic that has just moved, with room for one; silent ones keep places for 10 ns."""
    lab = Lab(max_producers_per_topic=1, max_consumers_per_topic=1)
    lab.attachments.owners.keep_ns = 10
    moved(lab, 0)
    lab.producer("silent", 7)
    lab.consumer("c", 9)
    moved(lab, 100)
    return lab


def test_a_resumable_producer_keeps_the_only_place_for_a_while() -> None:
    lab = lab_that_keeps()
    assert (lab.producers, lab.attachments.owners.released) == (1, 1), (
        "its consumer has to attach anew anyhow"
    )
    assert lab.ask_producer("new", Caller("me", "peer:2")).decision is not None
    lab.attachments.owners.release_silent(109)
    _, decision = lab.calls.publish(method("Send"), values(topic=TOPIC, producer=7, payload=1), lab.me, 109)
    assert decision is None
    lab.attachments.owners.release_silent(500)
    assert lab.producers == 1, "it was heard of"


def test_a_silent_producer_loses_its_place_later_and_is_refused_when_it_returns() -> None:
    lab = lab_that_keeps()
    lab.attachments.owners.release_silent(110)
    assert (lab.producers, lab.attachments.owners.released) == (0, 2)
    lab.producer("new", 8, Caller("me", "peer:2"))
    _, decision = lab.calls.publish(method("Send"), values(topic=TOPIC, producer=7, payload=1), lab.me, 111)
    assert decision is not None
    assert decision.action is Action.REJECT
    lab.attachments.owners.release_silent(200)
    assert lab.producers == 1


def test_another_move_restarts_the_grace_of_its_producers() -> None:
    lab = lab_that_keeps()
    moved(lab, 105)
    lab.attachments.owners.release_silent(112)
    assert lab.producers == 1
    lab.attachments.owners.release_silent(115)
    assert lab.producers == 0
