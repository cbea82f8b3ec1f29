import asyncio

import pytest

from sluicegate.engine.gates import GateCache
from sluicegate.engine.state import TopicState
from sluicegate.model import OperationKind, TopicName
from sluicegate.runtime import samples
from sluicegate.runtime.labels import OTHER
from sluicegate.runtime.samples import TopicSamples


class Topics:
    """States of topics, with samples that name two of them."""

    def __init__(self) -> None:
        self.gates = GateCache(lambda topic, exempt, now_ns: NotImplemented)
        self.samples = TopicSamples(topics=2)

    def publish(self, topic: str, count: int) -> TopicState:
        state = self.gates.states.setdefault(topic, TopicState(TopicName(topic, "ns"), 0))
        state.size_counts[4] += count
        return state

    def refresh(self, times: int = 1) -> None:
        for _ in range(times):
            asyncio.run(self.samples.refresh(self.gates, 0))

    def allowed(self, topic: str) -> int:
        return int(self.samples.latest[topic]["counters"][0])


def test_topics_above_the_bound_are_summed_as_other() -> None:
    topics = Topics()
    for number in range(5):
        topics.publish(f"t{number}", 10)
    topics.gates.states["t4"].violations["max_message_size", "reject", "invalid"] = 3
    topics.gates.states["t4"].producers.attach("p", "c")
    topics.gates.states["t4"].count("asked_in_vain", 2)
    topics.refresh(3)
    assert set(topics.samples.latest) == {"t0", "t1", OTHER}
    assert topics.allowed(OTHER) == 30
    other = topics.samples.latest[OTHER]
    assert other["violations"] == [["max_message_size", "reject", "invalid", 3]]
    assert other["producers"] == 1
    assert (other["namespace"], other["named"]) == (OTHER, {"asked_in_vain": 2})
    assert other["sizes"][4] == 30


def test_busy_topics_get_names_and_other_never_decreases() -> None:
    topics = Topics()
    for number in range(4):
        topics.publish(f"t{number}", 1)
    topics.refresh()
    topics.publish("t3", 1000)
    topics.refresh(59)
    other = topics.allowed(OTHER)
    topics.refresh()
    assert "t3" in topics.samples.latest
    assert topics.allowed("t3") == 1001
    assert topics.allowed(OTHER) == other
    quiet = ({"t0", "t1"} - set(topics.samples.latest)).pop()
    topics.publish(quiet, 5)
    topics.refresh()
    assert topics.allowed(OTHER) == other + 5


def test_an_evicted_topic_frees_its_name_and_stays_in_other() -> None:
    topics = Topics()
    for number in range(3):
        topics.publish(f"t{number}", 10)
    topics.refresh()
    del topics.gates.states["t0"], topics.gates.states["t2"]
    topics.publish("t9", 4)
    topics.refresh(2)
    assert set(topics.samples.latest) == {"t1", "t9", OTHER}
    assert topics.allowed(OTHER) == 10


def test_a_hidden_topic_that_was_evicted_and_came_again_takes_nothing_from_other() -> None:
    topics = Topics()
    for number in range(4):
        state = topics.publish(f"t{number}", 1_000)
        state.violations["max_message_size", "reject", "invalid"] = 30
        state.count("asked_in_vain", 20)
        state.holds[OperationKind.PUBLISH].add(3_000_000)
    topics.refresh()
    del topics.gates.states["t3"]
    state = topics.publish("t3", 1)
    state.violations["max_message_size", "reject", "invalid"] = 1
    state.count("asked_in_vain", 1)
    state.holds[OperationKind.PUBLISH].add(1)
    topics.refresh(2)
    other = topics.samples.latest[OTHER]
    assert topics.allowed(OTHER) == 2_001
    assert other["violations"] == [["max_message_size", "reject", "invalid", 61]]
    assert other["named"] == {"asked_in_vain": 41}
    assert sum(other["holds"]["publish"][:-1]) == 3


def test_topics_and_subscriptions_that_are_called_other_have_a_label_of_their_own() -> None:
    topics = Topics()
    topics.publish("other", 500)
    topics.publish("other_", 60)
    topics.publish("third", 3)
    state = topics.gates.states["other"]
    for number in range(50):
        for client in "ab":
            state.subscription(f"s{number}").consumers.attach(client, "x")
    state.subscription("s50").consumers.attach("a", "x")
    for client in "abc":
        state.subscription("other").consumers.attach(client, "x")
    topics.refresh()
    assert {topic: topics.allowed(topic) for topic in topics.samples.latest} == {
        "other_": 500,
        "other__": 60,
        OTHER: 3,
    }
    consumers = topics.samples.latest["other_"]["consumers"]
    assert (consumers["other_"], consumers[OTHER]) == (3, 3)


def test_names_of_any_length_have_short_labels_of_their_own() -> None:
    """A client may choose a topic's name, and each scrape has it some forty times."""
    topics, long = Topics(), "x" * 32_000
    for count, name in enumerate((f"{long}a", f"{long}b"), 1):
        topics.gates.states[name] = state = TopicState(TopicName(name, name), 0)
        state.size_counts[4] = count
        for subscription in (f"{long}1", f"{long}2"):
            state.subscription(subscription).consumers.attach("c", "x")
    topics.refresh()
    assert sorted(map(topics.allowed, topics.samples.latest)) == [1, 2]
    for label, sample in topics.samples.latest.items():
        assert len(sample["consumers"]) == 2
        for each in (label, sample["namespace"], *sample["consumers"]):
            assert each.startswith("x" * 200)
            assert len(each) <= 300


def test_batches_and_hold_times_add_up_in_other_and_never_decrease() -> None:
    topics = Topics()
    for number in range(4):
        state = topics.publish(f"t{number}", 1)
        state.batch_counts[9] += 2
        state.holds[OperationKind.PUBLISH].add(3_000_000)
    topics.refresh(3)
    named, other = topics.samples.latest["t0"], topics.samples.latest[OTHER]
    assert (named["batches"][9], other["batches"][9], other["sizes"][4]) == (2, 4, 2)
    assert (sum(named["holds"]["publish"][:-1]), named["holds"]["publish"][-1]) == (1, 3_000_000)
    assert (sum(other["holds"]["publish"][:-1]), other["holds"]["publish"][-1]) == (2, 6_000_000)

    state.holds[OperationKind.DISPATCH].add(1)
    topics.publish("t3", 1_000)
    topics.refresh(60)
    assert "t3" in topics.samples.latest
    assert topics.samples.latest[OTHER]["holds"]["dispatch"][-1] == 1
    assert sum(topics.samples.latest[OTHER]["holds"]["publish"][:-1]) == 2


def test_subscriptions_are_reported() -> None:
    topics = Topics()
    state = topics.publish("t", 1)
    for number in range(60):
        state.subscription(f"s{number}").consumers.attach("c", "x")
    topics.refresh()
    sample = topics.samples.latest["t"]
    assert len(sample["consumers"]) == 51
    assert sample["consumers"][OTHER] == 10


def test_many_topics_are_looked_at_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_PER_SAMPLE", 10)
    topics = Topics()
    for number in range(35):
        state = topics.publish(f"t{number:02}", 1)
        state.producers.attach("p", "c")
    looks: list[str] = []
    look = topics.samples._look

    def counted(topic: str, state: TopicState) -> object:
        looks.append(topic)
        return look(topic, state)

    monkeypatch.setattr(topics.samples, "_look", counted)

    seen = []
    for _ in range(4):
        topics.refresh()
        seen.append((len(looks), topics.allowed(OTHER), topics.samples.latest[OTHER]["producers"]))
        looks.clear()

    assert seen == [(12, 8, 8), (12, 18, 18), (12, 28, 28), (7, 33, 33)]
    topics.publish("t00", 100)
    topics.publish("t34", 100)
    topics.gates.states["t34"].producers.detach("p", "c")
    topics.refresh()
    assert (topics.allowed("t00"), topics.allowed(OTHER)) == (101, 33)
    topics.refresh(3)
    assert (topics.allowed(OTHER), topics.samples.latest[OTHER]["producers"]) == (133, 32)


def test_what_an_evicted_topic_did_after_the_last_look_is_counted() -> None:
    topics = Topics()
    for number in range(3):
        topics.publish(f"t{number}", 10).producers.attach("p", "c")
    topics.refresh()
    topics.publish("t2", 5)
    del topics.gates.states["t2"]
    topics.refresh()
    assert (topics.allowed(OTHER), topics.samples.latest[OTHER]["producers"]) == (15, 0)
