"""Scopes are merged as the rule says, and their limits are kept apart, whatever the policies are."""

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.scoped import SECOND_NS, TOPIC, compiler, layer, publish

from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import EVERYBODY, Level, PolicyLayer, PolicySet, Scope, path_name

RATE = "max_publish_rate"
named = st.lists(st.sampled_from(["a", "ab", "a*", "*b", "*"]), min_size=1, max_size=2).map(tuple)
names = st.one_of(st.just(()), named)
scopes = st.builds(Scope, names, names)
values = st.dictionaries(st.sampled_from([RATE, "max_dispatch_rate"]), st.integers(1, 9))
layers = st.lists(
    st.builds(
        layer, values, scopes, st.sampled_from(Level), st.sampled_from([TOPIC, "orders", "o*"]), values
    ).filter(lambda each: each.level is not Level.NAMESPACE or each.name != TOPIC),
    max_size=6,
)


def chosen(layers: Sequence[PolicyLayer], field: str, *, of_ceilings: bool) -> dict[Level, float]:
    """What counts at each level: the most specific scope, then the most specific name, then the last."""
    found: dict[Level, tuple[object, float]] = {}
    for one in layers:
        setting = (one.ceilings if of_ceilings else one.settings).get(field)
        exact = "*" not in one.name
        rank = (one.scope.rank, exact, len(one.name))
        if setting is not None and (one.level not in found or rank >= found[one.level][0]):  # type: ignore[operator]
            found[one.level] = (rank, float(setting.value))
    return {level: value for level, (_, value) in found.items()}


def expected(layers: Sequence[PolicyLayer], field: str, principal: str, client: str) -> float:
    """The value for a client by the rule, written down once more."""
    of_topic = [each for each in layers if each.level is not Level.TOPIC or each.name != "orders"]
    mine = [each for each in of_topic if not each.scope or each.scope.matches(principal, client, "")]
    own, ceilings = (chosen(mine, field, of_ceilings=each) for each in (False, True))
    value = own[max(own)] if own else 0
    bound = min(ceilings.values(), default=0)
    return bound if bound and (not value or value > bound) else value


@settings(max_examples=200)
@given(layers, st.sampled_from(["a", "ab", "b"]), st.sampled_from(["a", "ab", "b"]))
def test_the_effective_value_is_that_of_the_rule(
    layers: list[PolicyLayer], principal: str, client: str
) -> None:
    resolver = Resolver(PolicySet(1, tuple(layers)), {})
    topic = path_name(TOPIC)
    mine = tuple(scope for scope in resolver.scopes(topic) if scope.matches(principal, client, ""))

    effective = resolver.resolve(topic, scopes=mine)

    for field in (RATE, "max_dispatch_rate"):
        assert effective.number(field) == expected(layers, field, principal, client)


@settings(max_examples=200)
@given(layers)
def test_those_who_share_a_limit_have_the_same_value(layers: list[PolicyLayer]) -> None:
    resolver = Resolver(PolicySet(1, tuple(layers)), {})
    topic = path_name(TOPIC)
    by_owner: dict[str, float] = {}
    for principal, client in itertools.product(("a", "ab", "b", "c"), repeat=2):
        mine = tuple(each for each in resolver.scopes(topic) if each.matches(principal, client, ""))
        effective = resolver.resolve(topic, scopes=mine)
        value = effective.number(RATE)
        assert by_owner.setdefault(effective.owner(RATE), value) == value


ops = st.lists(st.tuples(st.sampled_from(["a", "ab", "b"]), st.integers(0, 1_000)), max_size=40)


@settings(max_examples=100)
@given(st.dictionaries(named, st.integers(1, 5), max_size=3), st.integers(1, 5), ops)
def test_each_scope_has_the_bucket_of_its_rate(
    rates: dict[tuple[str, ...], int], common: int, ops: list[tuple[str, int]]
) -> None:
    """An oracle of token buckets, one for each scope whose rate counts, decides as the gate does."""
    scoped = {Scope(principals=principals): rate for principals, rate in rates.items()}
    reject = {"on_limit.max_publish_rate": "reject"}
    gate = compiler(
        layer({RATE: common, **reject}), *(layer({RATE: rate}, scope) for scope, rate in scoped.items())
    ).gates.get(TOPIC, False, 0)
    buckets: dict[Scope, tuple[float, float]] = {}
    now_s = 0.0
    for principal, wait_ms in ops:
        now_s += wait_ms / 1000
        mine = [EVERYBODY, *(scope for scope in scoped if scope.matches(principal, "app", ""))]
        owner = max(enumerate(mine), key=lambda each: (each[1].rank, each[0]))[1]
        rate = scoped.get(owner, common)
        tokens, at_s = buckets.get(owner, (rate, 0.0))
        tokens = min(rate, tokens + (now_s - at_s) * rate)
        decision = gate.publish(publish(principal), round(now_s * SECOND_NS))
        if abs(tokens - 1) > 1e-6:  # else rounding decides
            assert (decision is None) == (tokens >= 1)
        buckets[owner] = (tokens - (decision is None), now_s)
