"""State of topics and subscriptions: counts, what exists, limiters, memory."""

import gc
import tracemalloc

import pytest

from sluicegate.engine.state import SIZE_SLOTS, SUBSCRIPTIONS_BEFORE_PRUNING, TopicState
from sluicegate.model import Operation, OperationKind, TopicName

SECOND_NS = 1_000_000_000


@pytest.mark.seed("S1-033", "S1-003")
def test_counts_follow_attachments(state: TopicState) -> None:
    state.producers.attach("p", "a")
    state.subscription("one").consumers.attach("c1", "a")
    state.subscription("one").consumers.attach("c2", "a")
    state.subscription("two").consumers.attach("c3", "a")

    assert len(state.producers) == 1
    assert state.consumer_count == 3
    assert state.subscription_count == 0


@pytest.mark.seed("S1-002")
def test_only_learned_subscriptions_exist(state: TopicState) -> None:
    state.subscription("asked about")
    assert not state.subscriptions_known

    state.learn_subscriptions(["one", "two"])

    assert [state.subscriptions_known] == [True]
    assert state.subscription_count == 2
    assert state.subscription("one").exists
    assert not state.subscription("asked about").exists


def test_a_new_list_drops_missing_subscriptions_but_keeps_those_with_consumers(state: TopicState) -> None:
    state.learn_subscriptions(["gone", "listed", "used"])
    state.subscription("used").consumers.attach("c", "a")

    state.learn_subscriptions(["listed"])

    assert not state.subscription("gone").exists
    assert state.subscription("listed").exists
    assert state.subscription("used").exists


def test_a_subscription_younger_than_the_list_is_kept(state: TopicState) -> None:
    young, old = state.subscription("young"), state.subscription("old")
    young.exists = old.exists = True
    young.created_ns, old.created_ns = 200, 100

    state.learn_subscriptions([], asked_ns=150)

    assert (young.exists, old.exists) == (True, False)


@pytest.mark.seed("S1-063", "S1-080")
def test_limiters_are_made_once_and_then_reconfigured(state: TopicState) -> None:
    line = state.limiter("rate", 10, 0, 1.0, 0)
    line.bucket.charge(4, 0, 0)

    again = state.limiter("rate", 20, 0, 1.0, 0)

    assert again is line
    assert line.bucket.messages_per_s == 20
    assert line.bucket.balance(0)[0] == 6
    assert state.subscription("s").limiter("rate", 10, 0, 1.0, 0) is not line


def test_plugin_data_is_kept(state: TopicState) -> None:
    state.plugin_data["mine"] = 1

    assert state.plugin_data == {"mine": 1}


def test_a_state_is_evictable_when_dropping_it_changes_nothing(state: TopicState) -> None:
    assert state.is_evictable(0)

    state.limiter("rate", 10, 0, 1.0, 0).bucket.charge(5, 0, 0)
    assert not state.is_evictable(0)
    assert state.is_evictable(SECOND_NS)

    state.producers.attach("p", "a")
    assert not state.is_evictable(SECOND_NS)
    state.producers.release("p")
    state.subscription("s").consumers.attach("c", "a")
    assert not state.is_evictable(SECOND_NS)


def test_names_of_mere_questions_do_not_accumulate(state: TopicState) -> None:
    state.learn_subscriptions(["real"])
    for number in range(3 * SUBSCRIPTIONS_BEFORE_PRUNING):
        state.subscription(f"noise {number}")

    assert len(state.subscriptions) <= SUBSCRIPTIONS_BEFORE_PRUNING
    assert state.subscription("real").exists


def test_a_listing_is_learned_whole_at_first_and_again(state: TopicState) -> None:
    names = [f"s{number}" for number in range(4 * SUBSCRIPTIONS_BEFORE_PRUNING)]
    for _ in range(2):
        state.learn_subscriptions(names)
        state.subscription("one more")
        assert state.subscription_count == len(names)


def test_all_are_looked_at_again_only_when_they_have_doubled(
    state: TopicState, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    prune = TopicState._prune_subscriptions

    def counting(self: TopicState, now_ns: int) -> None:
        looked_at.append(len(self.subscriptions))
        prune(self, now_ns)

    monkeypatch.setattr(TopicState, "_prune_subscriptions", counting)
    first = 4 * SUBSCRIPTIONS_BEFORE_PRUNING
    state.learn_subscriptions(f"s{number}" for number in range(first))
    for number in range(7 * first):
        state.subscription(f"new {number}").exists = True
        state.subscription(f"noise {number}")

    assert looked_at[:3] == [first, 2 * first, 2 * (first + first // 2)]
    assert sum(looked_at) <= 4 * len(state.subscriptions)
    assert state.subscription_count == 8 * first
    assert len(state.subscriptions) <= 2 * state.subscription_count


@pytest.mark.parametrize("needed", [0, 3 * SUBSCRIPTIONS_BEFORE_PRUNING])
def test_without_a_listing_as_many_are_kept_as_a_limit_needs(state: TopicState, needed: int) -> None:
    state.subscriptions_needed = needed
    for number in range(20 * SUBSCRIPTIONS_BEFORE_PRUNING):
        state.subscription(f"s{number}").exists = True

    assert max(1, needed) <= state.subscription_count <= max(SUBSCRIPTIONS_BEFORE_PRUNING, 2 * needed)


def test_sizes_of_any_protocol_have_a_slot(state: TopicState) -> None:
    assert (2**32).bit_length() < SIZE_SLOTS == len(state.size_counts)


@pytest.mark.seed("S1-128")
def test_an_idle_topic_takes_little_memory() -> None:
    gc.collect()
    tracemalloc.start()
    try:
        states = [TopicState(TopicName(f"topic-{number}", "default"), 0) for number in range(200)]
        for state in states:
            state.limiter("max_publish_rate", 10, 0, 1.0, 0)
            state.learn_subscriptions(["one"])
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size / len(states) <= 4096


def test_messages_are_counted_under_the_names_of_the_broker_room(state: TopicState) -> None:
    assert state.named_counts == {}

    state.count("late", 2)
    state.count("late", 3)
    state.count("lost", 1)

    assert state.named_counts == {"late": 5, "lost": 1}


def crowded(state: TopicState) -> None:
    """Have one more subscription prune the others."""
    for number in range(SUBSCRIPTIONS_BEFORE_PRUNING - len(state.subscriptions)):
        state.subscription(f"noise {number}")


@pytest.mark.parametrize(
    ("charged", "now_ns", "is_kept"), [(0, 1, False), (5, 1, True), (0, 0, True), (0, None, True)]
)
def test_pruning_keeps_limiters_that_are_not_full_and_all_of_them_at_an_unknown_time(
    state: TopicState, charged: int, now_ns: int | None, is_kept: bool
) -> None:
    limited = state.subscription("limited")
    limited.limiter("rate", 10, 0, 1.0, 0).bucket.charge(charged, 0, 0)
    crowded(state)

    state.subscription("one more") if now_ns is None else state.subscription("one more", now_ns)

    assert (state.subscriptions.get("limited") is limited) is is_kept


def test_pruning_keeps_subscriptions_with_consumers(state: TopicState) -> None:
    state.subscription("used").consumers.attach("c", "a")
    crowded(state)

    state.subscription("one more")

    assert set(state.subscriptions) == {"used", "one more"}


def test_a_subscription_created_during_the_listing_is_kept(state: TopicState) -> None:
    young = state.subscription("young")
    young.exists, young.created_ns = True, 150

    state.learn_subscriptions([], asked_ns=150)

    assert young.exists


def test_holds_of_one_kind_add_up_and_none_is_negative(state: TopicState) -> None:
    for held_ns in (0, -5, 10, 20):
        state.holds[OperationKind.PUBLISH].add(held_ns)
    state.holds[OperationKind.DISPATCH].add(1)

    assert state.holds[OperationKind.PUBLISH].total_ns == 30
    assert sum(state.holds[OperationKind.PUBLISH].counts) == 4
    assert state.holds[OperationKind.DISPATCH].total_ns == 1


def test_joining_an_existing_subscription_does_not_change_its_age(state: TopicState) -> None:
    state.learn_subscriptions(["s"])

    state.commit(
        Operation(OperationKind.ATTACH_CONSUMER, "t", consumer="c", subscription="s", client="a"),
        7,
        counted=True,
    )

    assert state.subscription("s").created_ns == 0


def test_a_reader_without_a_subscription_creates_none(state: TopicState) -> None:
    state.commit(Operation(OperationKind.ATTACH_CONSUMER, "t", consumer="c", client="a"), 7, counted=True)

    assert (state.subscription_count, state.consumer_count) == (0, 1)


def test_a_consumer_without_counted_messages_can_leave(state: TopicState) -> None:
    op = Operation(OperationKind.ATTACH_CONSUMER, "t", consumer="c", subscription="s", client="a")
    state.commit(op, 7, counted=True)

    state.release(op)

    assert state.consumer_count == 0
