"""Three levels, three sources, locks, ceilings, patterns: merged field by field, with provenance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.engine.hierarchy import DISABLED_BY_ZERO, Resolver
from sluicegate.model import (
    EffectivePolicies,
    Glob,
    Level,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Setting,
    Source,
    TopicName,
)

TOPIC = TopicName("/sales/orders", "sales")
DEFAULTS: dict[str, PolicyValue] = {"max_message_size": 10 * 2**20}


def layer(
    level: Level,
    name: str,
    values: dict[str, PolicyValue] | None = None,
    *,
    source: Source = Source.FILE,
    locked: bool = False,
    ceilings: dict[str, PolicyValue] | None = None,
    location: str = "",
) -> PolicyLayer:
    def settings(fields: dict[str, PolicyValue] | None) -> dict[str, Setting]:
        return {key: Setting(value, source, location, locked) for key, value in (fields or {}).items()}

    return PolicyLayer(level, name, settings(values), settings(ceilings))


def merged(*layers: PolicyLayer, topic: TopicName = TOPIC) -> EffectivePolicies:
    return Resolver(PolicySet(3, layers), DEFAULTS).resolve(topic)


def broker(values: dict[str, PolicyValue], **options: object) -> PolicyLayer:
    return layer(Level.BROKER, "", values, **options)  # type: ignore[arg-type]


def namespace(values: dict[str, PolicyValue], name: str = "sales", **options: object) -> PolicyLayer:
    return layer(Level.NAMESPACE, name, values, **options)  # type: ignore[arg-type]


def topic(values: dict[str, PolicyValue], name: str = "/sales/orders", **options: object) -> PolicyLayer:
    return layer(Level.TOPIC, name, values, **options)  # type: ignore[arg-type]


@pytest.mark.seed("S1-010", "S1-020", "S1-021", "S1-023", "S1-026", "S1-122")
def test_topic_over_namespace_over_broker_field_by_field() -> None:
    found = merged(
        topic({"a": 3}),
        broker({"a": 1, "b": 1, "c": 1}),
        namespace({"a": 2, "b": 2}),
        namespace({"c": 9}, name="other"),
        topic({"c": 9}, name="/sales/other"),
    )

    assert {name: found.values[name] for name in "abc"} == {"a": 3, "b": 2, "c": 1}
    assert [found.level(name) for name in "abc"] == ["topic", "namespace", "broker"]
    assert (found.topic, found.version) == ("/sales/orders", 3)


@pytest.mark.seed("S1-025")
def test_a_namespace_without_policies_falls_back_to_the_broker() -> None:
    found = merged(broker({"a": 1}), namespace({}))

    assert (found.number("a"), found.level("a")) == (1, "broker")


@pytest.mark.seed("S1-022")
def test_provenance_names_level_source_and_place() -> None:
    found = merged(
        broker({"a": 1}, location="gateway.yaml:4"),
        topic({"a": 2}, source=Source.STORE, location="store version 7"),
    )

    where = found.provenance["a"]
    assert (where.level, where.source, where.location) == (Level.TOPIC, Source.STORE, "store version 7")
    default = found.provenance["max_message_size"]
    assert (default.level, default.source) == (None, Source.DEFAULT)
    assert found.level("max_message_size") == ""


@pytest.mark.seed("S1-026", "S1-054")
def test_zero_overrides_and_unset_inherits() -> None:
    found = merged(broker({"a": 5, "b": 5}), topic({"a": 0}))

    assert (found.number("a"), found.number("b")) == (0, 5)
    assert "c" not in found.values


@pytest.mark.seed("S1-053")
def test_defaults_hold_where_nothing_is_set() -> None:
    assert merged().number("max_message_size") == 10_485_760
    assert merged(topic({"max_message_size": 0})).number("max_message_size") == 0


def test_a_higher_source_wins_at_the_same_level_whatever_the_order() -> None:
    file, store = topic({"a": 1}), topic({"a": 2}, source=Source.STORE)

    assert merged(file, store).number("a") == merged(store, file).number("a") == 2


def test_a_lower_source_at_a_higher_level_still_wins() -> None:
    assert merged(broker({"a": 2}, source=Source.STORE), topic({"a": 1})).number("a") == 1


def test_the_store_cannot_override_a_field_that_the_file_locks() -> None:
    locked = namespace({"a": 1}, locked=True)

    assert merged(locked, namespace({"a": 2}, source=Source.STORE)).number("a") == 1
    assert merged(locked, topic({"a": 2}, source=Source.STORE)).number("a") == 1
    # The file itself may still say otherwise further up, and other fields are free.
    assert merged(locked, topic({"a": 3})).number("a") == 3
    assert merged(locked, topic({"b": 2}, source=Source.STORE)).number("b") == 2


def test_a_lock_of_another_namespace_does_not_matter() -> None:
    found = merged(namespace({"a": 1}, name="other", locked=True), topic({"a": 2}, source=Source.STORE))

    assert found.number("a") == 2


@pytest.mark.parametrize(
    ("names", "winner"),
    [
        (["*", "/sales/*"], "/sales/*"),
        (["/sales/*", "*"], "/sales/*"),
        (["/sales/*", "/sales/orders"], "/sales/orders"),
        (["/sales/ord*rs*", "/sales/orders"], "/sales/orders"),
        (["*orders", "/x/*"], "*orders"),
        (["/sales/o*s", "/sales/*"], "/sales/o*s"),
    ],
)
def test_the_most_specific_name_wins(names: list[str], winner: str) -> None:
    layers = [topic({"a": number}, name=name) for number, name in enumerate(names, 1)]

    assert merged(*layers).number("a") == names.index(winner) + 1


def test_patterns_apply_field_by_field_and_only_the_star_is_special() -> None:
    found = merged(topic({"a": 1, "b": 1}, name="*"), topic({"a": 2}), topic({"b": 9}, name="/sales/order?"))

    assert (found.number("a"), found.number("b")) == (2, 1)
    assert merged(topic({"a": 1}, name="x.*"), topic=TopicName("xy", "d")).number("a") == 0
    assert merged(namespace({"a": 1}, name="s*")).number("a") == 1


def test_a_ceiling_can_only_tighten() -> None:
    ceiling = layer(Level.BROKER, "", ceilings={"a": 100}, location="gateway.yaml:9")

    loosened = merged(ceiling, topic({"a": 500}, location="gateway.yaml:30"))
    assert loosened.number("a") == 100
    assert loosened.level("a") == "topic"
    assert loosened.provenance["a"].ceiling == "broker ceiling gateway.yaml:9"

    tightened = merged(ceiling, topic({"a": 50}))
    assert tightened.number("a") == 50
    assert tightened.provenance["a"].ceiling == ""


def test_unlimited_is_looser_than_any_ceiling() -> None:
    ceiling = layer(Level.NAMESPACE, "sales", ceilings={"a": 100})

    assert merged(ceiling, topic({"a": 0})).number("a") == 100
    unset = merged(ceiling)
    assert unset.number("a") == 100
    assert unset.level("a") == "namespace"


def test_the_lowest_ceiling_holds_and_zero_is_none() -> None:
    found = merged(
        layer(Level.BROKER, "", ceilings={"a": 100, "b": 100}),
        layer(Level.NAMESPACE, "sales", ceilings={"a": 200, "b": 30}),
        layer(Level.TOPIC, "/sales/orders", {"a": 1000, "b": 1000}, ceilings={"a": 0}),
    )

    assert (found.number("a"), found.number("b")) == (100, 30)


def test_a_ceiling_does_not_enable_a_delay() -> None:
    ceiling = layer(Level.BROKER, "", ceilings={"fixed_delivery_delay": 60_000})

    assert merged(ceiling).number("fixed_delivery_delay") == 0
    assert merged(ceiling, topic({"fixed_delivery_delay": 90_000})).number("fixed_delivery_delay") == 60_000


def test_a_ceiling_of_a_choice_is_ignored() -> None:
    ceiling = layer(Level.BROKER, "", ceilings={"delay_clock": 5})

    assert merged(ceiling, topic({"delay_clock": "publish_time"})).text("delay_clock", "") == "publish_time"


def test_observe_only_of_the_set_reaches_the_topic() -> None:
    assert Resolver(PolicySet(1, observe_only=True), {}).resolve(TOPIC).observe_only


def test_topics_with_the_same_layers_share_what_was_merged() -> None:
    resolver = Resolver(PolicySet(1, (broker({"a": 1}), topic({"a": 2}))), DEFAULTS)

    first, second = (resolver.resolve(TopicName(name, "sales")) for name in ("x", "y"))
    own = resolver.resolve(TOPIC)

    assert first.values is second.values
    assert (first.topic, second.topic) == ("x", "y")
    assert own.number("a") == 2


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(Level)),
            st.sampled_from([Source.FILE, Source.STORE]),
            st.integers(0, 50),
            st.booleans(),
        ),
        max_size=8,
        unique_by=lambda drawn: drawn[:2],
    ),
    st.randoms(use_true_random=False),
)
def test_the_result_does_not_depend_on_the_order_of_layers(  # type: ignore[no-untyped-def]
    drawn: list[tuple[Level, Source, int, bool]], shuffle
) -> None:
    names = {Level.BROKER: "", Level.NAMESPACE: "sales", Level.TOPIC: "/sales/orders"}
    layers = [
        layer(level, names[level], {"a": value}, source=source, locked=locked and source is Source.FILE)
        for level, source, value, locked in drawn
    ]
    expected = merged(*layers).values
    shuffle.shuffle(layers)

    assert merged(*layers).values == expected


def test_a_namespace_is_resolved_without_a_topic() -> None:
    resolver = Resolver(
        PolicySet(1, (broker({"a": 1, "b": 1}), namespace({"a": 2}), topic({"a": 3}, name="*"))), {}
    )
    nameless = TopicName("", "sales")

    assert resolver.resolve(nameless, Level.NAMESPACE).values == {"a": 2, "b": 1}
    assert resolver.resolve(nameless, Level.BROKER).values == {"a": 1, "b": 1}
    assert resolver.resolve(TOPIC).values == {"a": 3, "b": 1}


def test_the_values_of_one_level_alone() -> None:
    layers = (
        broker({"a": 1}),
        topic({"a": 2, "b": 2}, name="*"),
        topic({"a": 3}, source=Source.STORE, location="store version 7"),
    )
    resolver = Resolver(PolicySet(1, layers), {"c": 5})

    found = resolver.settings(TOPIC, Level.TOPIC)
    assert {name: setting.value for name, setting in found.items()} == {"a": 3, "b": 2}
    assert found["a"].location == "store version 7"
    assert resolver.settings(TOPIC, Level.NAMESPACE) == {}


def test_a_lock_holds_at_its_level_and_all_below() -> None:
    locked = namespace({"a": 1}, locked=True, location="gateway.yaml:3")
    resolver = Resolver(PolicySet(1, (locked, topic({"b": 1}))), {})

    for level, expected in (
        (Level.BROKER, ""),
        (Level.NAMESPACE, "gateway.yaml:3"),
        (Level.TOPIC, "gateway.yaml:3"),
    ):
        lock = resolver.lock(TOPIC, level, "a")
        assert (lock.location if lock is not None else "") == expected
    assert resolver.lock(TOPIC, Level.TOPIC, "b") is None
    assert resolver.lock(TopicName("x", "other"), Level.TOPIC, "a") is None


@pytest.mark.parametrize("names", [("/sales/o*", "/sales/*s"), ("/sales/*s", "/sales/o*")])
def test_among_equally_specific_names_the_last_one_wins(names: tuple[str, str]) -> None:
    first, last = (topic({"a": number}, name=name) for number, name in enumerate(names, 1))

    assert merged(first, last).number("a") == 2


def test_a_lock_of_one_field_leaves_the_others_of_a_stored_layer_alone() -> None:
    locked = topic({"a": 1}, locked=True)

    found = merged(locked, topic({"a": 2, "b": 2}, source=Source.STORE))

    assert (found.number("a"), found.number("b")) == (1, 2)


@pytest.mark.parametrize("ceiling", [1, 0.5])
def test_a_ceiling_of_one_or_less_holds(ceiling: float) -> None:
    assert merged(broker({"a": 5}, ceilings={"a": ceiling})).number("a") == ceiling


def test_of_equal_ceilings_the_one_of_the_highest_level_is_named() -> None:
    found = merged(
        layer(Level.TOPIC, "/sales/orders", {"a": 20}, ceilings={"a": 10}, location="here"),
        layer(Level.BROKER, "", ceilings={"a": 10}),
    )

    assert found.number("a") == 10
    assert found.provenance["a"].ceiling == "broker ceiling"


def test_a_value_at_its_ceiling_was_not_tightened() -> None:
    assert merged(broker({"a": 10}, ceilings={"a": 10})).provenance["a"].ceiling == ""


def test_a_default_has_no_place_in_a_file() -> None:
    assert merged().provenance["max_message_size"].location == ""


def test_a_ceiling_raises_0_where_that_is_unlimited_and_not_where_it_disables() -> None:
    ceiling = layer(Level.BROKER, "", ceilings=dict.fromkeys(("a", *DISABLED_BY_ZERO), 60))
    found = Resolver(PolicySet(1, (ceiling,)), {}).resolve(TOPIC)

    assert found.number("a") == 60
    assert {found.number(name) for name in DISABLED_BY_ZERO} == {0}


def test_only_the_broker_level_sets_what_all_its_topics_share() -> None:
    layers = (
        broker({"a": 5, "b": 5}, ceilings={"b": 4}),
        layer(Level.NAMESPACE, "sales", {"a": 6, "c": 1}, ceilings={"a": 2}),
        topic({"a": 7, "b": 1}, ceilings={"b": 1}),
    )
    resolver = Resolver(PolicySet(1, layers), {}, frozenset({"a", "b"}))

    found = resolver.resolve(TOPIC)

    assert found.values == {"a": 5, "b": 4, "c": 1}
    assert (found.level("a"), found.level("b")) == ("broker", "broker")


def test_a_name_is_compared_only_with_patterns_of_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    matches = Glob.matches

    def counted(glob: Glob, name: str) -> bool:
        compared.append(glob.prefix)
        return matches(glob, name)

    monkeypatch.setattr(Glob, "matches", counted)
    patterns = [topic({"a": number}, name=f"/team-{number}/*") for number in range(1, 1_000)]

    found = merged(*patterns, topic({"b": 1}, name="*"), topic=TopicName("/team-77/orders", "team-77"))

    assert (found.number("a"), found.number("b")) == (77, 1)
    assert sorted(compared) == ["", "/team-77/"]


def test_the_names_for_which_a_source_sets_one_of_some_fields() -> None:
    layers = (
        layer(Level.TOPIC, "b", {"x": 1}, source=Source.STORE),
        layer(Level.TOPIC, "a", {"x": 1, "y": 2}, source=Source.STORE),
        layer(Level.TOPIC, "c", {"z": 1}, source=Source.STORE),
        layer(Level.TOPIC, "d", {"x": 1}),
        layer(Level.NAMESPACE, "e", {"x": 1}, source=Source.STORE),
    )
    resolver = Resolver(PolicySet(1, layers), {})
    assert resolver.names(Level.TOPIC, Source.STORE, ("x", "y")) == ["a", "b"]
