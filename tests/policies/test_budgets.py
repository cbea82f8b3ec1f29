"""Consume quotas, and quotas of tenants: budgets over topics, for publishing and for consuming."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.policies.lab import SECOND_NS, PolicyLab, dispatch, publish, verdict

from sluicegate.config.tenants import TenantQuota
from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Operation, Outcome
from sluicegate.testing import ManualContext

TENANT = "tenant_quota"
ALL, EACH = "consume_quota", "principal_consume_quota_bytes"


def held(policy: str) -> tuple[Action, str, Outcome]:
    return Action.DELAY, policy, Outcome.LIMIT_REACHED


def delivery(principal: str = "a", messages: int = 1, nbytes: int = 100) -> Operation:
    return replace(dispatch(messages, nbytes), principal=principal)


def with_tenant(lab: PolicyLab, **quota: object) -> None:
    tenant = TenantQuota.model_validate(
        {"name": "acme", "namespaces": ["acme-*"], "principals": ["User:acme"], **quota}
    )
    lab.context = ManualContext(config=SimpleNamespace(tenant_quotas=(tenant,)))


def test_all_principals_share_one_consume_quota_over_all_topics(lab: PolicyLab) -> None:
    one, two = (lab.gate({ALL: 10}, topic=topic) for topic in ("/default/one", "/default/two"))
    assert one.dispatch(delivery("a", 6), 0) is None
    assert two.dispatch(delivery("b", 4), 0) is None

    decision = two.dispatch(delivery("c"), 0)

    assert verdict(decision) == held(ALL)
    assert decision is not None
    assert decision.text.startswith("Consume quota exceeded by all principals on topic /default/orders. ")
    assert two.dispatch(delivery("c"), decision.delay_ns) is None
    assert two.publish(publish(1_000), 0) is None


def test_each_principal_has_a_consume_quota_of_its_own(lab: PolicyLab) -> None:
    gate = lab.gate({EACH: 1_000})
    assert gate.dispatch(delivery("a", nbytes=1_000), 0) is None

    assert verdict(gate.dispatch(delivery("a"), 0)) == held("principal_consume_quota_bytes")
    assert gate.dispatch(delivery("b"), 0) is None


def test_a_tenant_has_one_budget_for_its_namespaces_and_principals(lab: PolicyLab) -> None:
    with_tenant(lab, publish_messages=10, consume_messages=5)
    default = lab.gate({})
    assert default.publish(replace(publish(10), principal="User:acme"), 0) is None

    decision = default.publish(replace(publish(), principal="User:acme"), 0)

    assert verdict(decision) == held(TENANT)
    assert decision is not None
    assert "by tenant acme on topic" in decision.text
    assert default.publish(replace(publish(), principal="User:other"), 0) is None
    assert default.dispatch(delivery("User:acme", 5), 0) is None
    assert verdict(default.dispatch(delivery("User:acme"), 0)) == held(TENANT)


@pytest.mark.parametrize(("namespace", "is_its_own"), [("acme-eu", True), ("other", False)])
def test_topics_of_a_tenants_namespace_count_for_everybody(
    lab: PolicyLab, namespace: str, is_its_own: bool
) -> None:
    with_tenant(lab, publish_messages=1)
    gate = lab.gate({}, namespace=namespace)
    assert gate.publish(publish(), 0) is None

    assert (gate.publish(publish(), 0) is not None) is is_its_own


def test_a_tenant_without_members_is_refused() -> None:
    with pytest.raises(ValidationError, match="no members"):
        TenantQuota(name="acme")


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 8), st.integers(0, SECOND_NS // 4)), max_size=60))
def test_no_window_has_more_than_the_budget_allows(steps: list[tuple[bool, int, int]]) -> None:
    lab = PolicyLab()
    gates: list[Gate] = [lab.gate({ALL: 20}, topic=topic) for topic in ("/default/one", "/default/two")]
    now_ns, passed = 0, []
    for second, messages, later_ns in steps:
        now_ns += later_ns
        if gates[second].dispatch(delivery(messages=messages), now_ns) is None:
            passed.append((now_ns, messages))

    for index, (begin_ns, _) in enumerate(passed):
        total = 0
        for end_ns, messages in passed[index:]:
            total += messages
            assert total <= 20 + 20 * (end_ns - begin_ns) / SECOND_NS + 8


def test_a_consume_quota_of_bytes_is_only_observed_where_that_is_said(lab: PolicyLab) -> None:
    gate = lab.gate({EACH: 1_000, f"mode.{EACH}": "observe"})
    assert gate.dispatch(delivery("a", nbytes=1_000), 0) is None

    assert gate.dispatch(delivery("a"), 0) is None
    assert lab.sink.decisions[-1].observed
