"""Topics that share a pattern: it matches no topic with other needs."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import Level, PolicyLayer, PolicySet, Setting, Source, TopicName
from sluicegate_danube.names import could_be_topic as could_be_danube
from sluicegate_danube.names import topic_name as of_danube
from sluicegate_pulsar.names import could_be_topic as could_be_pulsar
from sluicegate_pulsar.names import topic_name as of_pulsar
from sluicegate_reports.recommending import patterns
from sluicegate_reports.recommending.patterns import ALIKE, merged
from sluicegate_reports.recommending.policy_file import Advice, Limit


def advice(name: str, rate: int = 100, policy: str = "max_publish_rate") -> Advice:
    return Advice(name, (Limit(policy, rate, f"p99 {rate}"),))


def names(merged_advice: list[Advice]) -> list[str]:
    return [each.topic for each in merged_advice]


def entries(*advised: Advice, others: tuple[str, ...] = ()) -> list[str]:
    return names(merged(advised, [*(each.topic for each in advised), *others]))


def test_topics_with_similar_limits_share_a_pattern_with_the_highest() -> None:
    rates = {"orders.eu": 100, "orders.us": 150, "orders.asia": 200, "orders.africa": 120, "audit": 9}
    merged_advice = merged([advice(name, rate) for name, rate in rates.items()], list(rates))
    assert names(merged_advice) == ["orders.*", "audit"]
    (limit,) = merged_advice[0].limits
    assert (limit.value, limit.why, merged_advice[0].covers) == (
        200,
        "p99 200, of orders.asia",
        (*sorted(rates)[1:],),
    )
    (remark,) = merged_advice[0].remarks
    assert remark.startswith("4 topics, ")
    assert remark.endswith(" and 1 more")


def test_a_pattern_stands_for_the_end_or_for_one_part_of_names() -> None:
    tenants = [advice(f"tenant{n}.{what}", rate) for n in range(4) for what, rate in (("in", 9), ("out", 90))]
    assert entries(*tenants) == ["tenant*.in", "tenant*.out"]
    assert entries(*(advice(f"persistent://public/default/shard-{n}") for n in range(3))) == [
        "persistent://public/default/shard-*"
    ]
    assert entries(*(advice(f"/default/t{n}") for n in range(3))) == ["/default/t*"]
    assert entries(*(advice(f"{name}.dlq") for name in ("a", "b", "c"))) == ["*.dlq"]


def test_a_pattern_never_matches_topics_with_other_needs() -> None:
    alike = [advice(f"orders.{name}") for name in ("a", "b", "c")]
    own = ["orders.a", "orders.b", "orders.c"]
    assert entries(*alike, advice("orders.d", 1_000)) == [*own, "orders.d"]
    assert entries(*alike, advice("orders.x", policy="max_dispatch_rate")) == [*own, "orders.x"]
    # No limit was measured for it, or its name fits in no file.
    assert entries(*alike, others=("orders.idle",)) == own
    assert entries(*alike, others=("orders.a b",)) == own
    # A file for several systems holds for all of them: Pulsar knows this one as orders.huge.
    other = advice("persistent://public/default/orders.huge", 9_000)
    assert entries(*alike, other) == [*own, other.topic]
    # Nor is a pattern of Kafka's names an entry for a topic of Danube whose name only ends like them.
    last = advice("/default/orders.d")
    assert entries(*alike, last) == [last.topic, *own]
    assert entries(*alike[:2]) == own[:2]


def test_topics_that_differ_in_one_policy_share_a_pattern_for_all_others() -> None:
    alike = {
        "max_publish_rate": 100,
        "max_dispatch_rate": 200,
        "max_message_size": 300,
        "max_producers_per_topic": 4,
    }
    advised = [
        Advice(
            f"tenant{number}.orders",
            tuple(
                Limit(name, value, "")
                for name, value in {**alike, "max_publish_rate_bytes": 10 * 3**number}.items()
            ),
            ("its principals",),
        )
        for number in range(20)
    ]
    pattern, *own = merged(advised, [each.topic for each in advised])
    assert pattern.topic == "tenant*.orders"
    assert {limit.policy: limit.value for limit in pattern.limits} == alike
    assert len(own) == 20
    for each in own:
        (limit,) = each.limits
        assert (limit.policy, each.remarks) == ("max_publish_rate_bytes", ("its principals",))
    assert {each.topic for each in own} == set(pattern.covers)


def test_a_pattern_has_no_limit_that_one_of_its_topics_lacks() -> None:
    advised = [advice(f"orders.{name}") for name in ("a", "b", "c")]
    advised.append(Advice("orders.d", (*advice("orders.d").limits, Limit("max_dispatch_rate", 9, ""))))
    pattern, own = merged(advised, [each.topic for each in advised])
    assert (pattern.topic, [limit.policy for limit in pattern.limits]) == ("orders.*", ["max_publish_rate"])
    assert (own.topic, [limit.policy for limit in own.limits]) == ("orders.d", ["max_dispatch_rate"])


def test_no_pattern_has_what_the_entry_of_another_topic_would_replace() -> None:
    """Pulsar knows the first one by the last one's name too, and an exact name counts before a pattern."""
    name = "persistent://public/default/orders"
    advised = [advice(name), *(advice(f"{name}.{n}") for n in "abc"), advice("orders", 9_000)]
    merged_advice = merged(advised, [each.topic for each in advised])
    assert _resolver(merged_advice).resolve(of_pulsar(name)).values["max_publish_rate"] == 100
    assert names(merged_advice) == [f"{name}.*", "orders", name]


def test_names_that_share_nothing_are_left_alone() -> None:
    assert entries(*(advice(name) for name in ("alpha", "beta", "gamma"))) == ["alpha", "beta", "gamma"]
    merged_advice = entries(*(advice(f"persistent://{n}/{n}/{n}") for n in ("a", "b", "c")))
    assert len(merged_advice) == 3


def test_the_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_COMPARED", 50)
    advised = [advice(f"{chr(97 + n % 26)}.{n}") for n in range(260)]
    merged_advice = merged(advised, names(advised))
    assert sum(len(each.covers or (each.topic,)) for each in merged_advice) == 260
    assert sum(bool(each.covers) for each in merged_advice) < 6
    monkeypatch.setattr(patterns, "_COMPARED", 50_000)
    assert len(merged(advised, names(advised))) == 26


_WORDS = st.sampled_from(["a", "b", "orders", "eu1", "eu2", "eu3", "7", "x.y", "part-1"])
_KAFKA = st.lists(_WORDS, min_size=1, max_size=3).map(".".join)
_PULSAR = _KAFKA.map(lambda name: f"persistent://public/default/{name}-partition-1")
_DANUBE = _KAFKA.map(lambda name: f"/default/{name}")


def _of_kafka(name: str) -> TopicName:
    return TopicName(name, "default")


def _read(name: str) -> Callable[[str], TopicName]:
    return of_pulsar if "://" in name else of_danube if name.startswith("/") else _of_kafka


def _matches(entry: str, topic: str) -> bool:
    """As a gateway does: by each of a topic's names, where a star stands for any characters."""
    pattern = ".*".join(re.escape(part) for part in entry.split("*"))
    return any(re.fullmatch(pattern, name, re.DOTALL) for name in _read(topic)(topic).all)


def _resolver(merged_advice: list[Advice]) -> Resolver:
    """What a gateway makes of a file with these entries."""
    layers = tuple(
        PolicyLayer(
            Level.TOPIC,
            each.topic,
            {limit.policy: Setting(limit.value, Source.FILE) for limit in each.limits},
        )
        for each in merged_advice
    )
    return Resolver(PolicySet(1, layers), {})


_NEEDS = st.dictionaries(
    st.sampled_from(["max_publish_rate", "max_dispatch_rate", "max_message_size"]),
    st.sampled_from([10, 15, 20, 500]),
    min_size=1,
)


@given(
    st.dictionaries(_KAFKA | _PULSAR | _DANUBE, _NEEDS, max_size=30),
    st.lists(_KAFKA | _PULSAR | _DANUBE, max_size=4),
)
def test_each_topic_has_one_entry_for_each_policy_that_it_needs(
    needs: dict[str, dict[str, int]], others: list[str]
) -> None:
    advised = [
        Advice(name, tuple(Limit(policy, rate, "") for policy, rate in own.items()))
        for name, own in needs.items()
    ]
    merged_advice = merged(advised, [*needs, *others])
    stars = [each for each in merged_advice if "*" in each.topic]
    resolver = _resolver(merged_advice)
    for topic in {*needs, *others}:
        fitting = [each for each in stars if _matches(each.topic, topic)]
        fitting += [each for each in merged_advice if each.topic == topic]
        own = needs.get(topic, {})
        assert sorted(limit.policy for each in fitting for limit in each.limits) == sorted(own)
        assert all(topic in each.covers for each in fitting if each in stars)
        resolved = resolver.resolve(_read(topic)(topic)).values
        for policy, rate in own.items():
            value = resolved[policy]
            assert isinstance(value, int)
            assert rate <= value <= ALIKE * rate
    for each in stars:
        could_be = {"p": could_be_pulsar, "/": could_be_danube}.get(each.topic[0])
        assert could_be is None or could_be(each.topic)
