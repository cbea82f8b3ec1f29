"""`?isGlobal=true`: a topic's global policy, which is the broker's and not the local one."""

import pytest
from tests.pulsar.web.lab import NAMESPACE, TOPIC, Lab

NATIVE = {"active": True, "tickTime": 100, "maxDeliveryDelayInMillis": 2000}
FIXED = {"fixedDeliveryDelayInMillis": 5000}
GLOBAL = f"{TOPIC}?isGlobal=true"


async def test_a_global_policy_is_set_only_at_the_broker(lab: Lab) -> None:
    assert (await lab.set(GLOBAL, NATIVE)).status_code == 204
    assert lab.admin.seen[-1].target == GLOBAL
    assert lab.services.stored() == {}


@pytest.mark.seed("S2-012")
async def test_a_global_policy_is_shown_as_the_broker_returns_it(lab: Lab) -> None:
    await lab.set(TOPIC, {**NATIVE, **FIXED})
    shown = await lab.get(GLOBAL)
    assert "fixedDeliveryDelayInMillis" not in shown.json()
    assert (await lab.get(TOPIC)).json()["fixedDeliveryDelayInMillis"] == 5000


@pytest.mark.seed("S2-013")
async def test_removing_a_global_policy_keeps_the_local_one(lab: Lab) -> None:
    await lab.set(TOPIC, {**NATIVE, **FIXED})
    stored = lab.services.stored()
    assert (await lab.delete(GLOBAL)).status_code == 204
    assert lab.services.stored() == stored


@pytest.mark.seed("S2-011")
async def test_a_global_policy_has_no_fixed_delay(lab: Lab) -> None:
    answer = await lab.set(GLOBAL, {**NATIVE, **FIXED})
    assert answer.status_code == 412
    assert "set it without isGlobal" in answer.json()["reason"]
    assert lab.admin.seen == []
    assert (await lab.set(GLOBAL, {**NATIVE, "fixedDeliveryDelayInMillis": 0})).status_code == 204
    assert (await lab.set(GLOBAL, {**NATIVE, "fixedDeliveryDelayInMillis": None})).status_code == 204
    assert lab.services.stored() == {}


async def test_a_maximum_below_the_fixed_delay_is_refused(lab: Lab) -> None:
    await lab.set(TOPIC, {"active": True, **FIXED})
    answer = await lab.set(GLOBAL, NATIVE)
    assert answer.status_code == 409
    assert (await lab.set(GLOBAL, {**NATIVE, "maxDeliveryDelayInMillis": 5000})).status_code == 204


@pytest.mark.parametrize("query", ["isGlobal=true&isGlobal=false", "isGlobal=false&isGlobal=true"])
async def test_global_and_local_together_are_refused(lab: Lab, query: str) -> None:
    """Brokers go by the first of two."""
    for answer in (await lab.set(f"{TOPIC}?{query}", NATIVE), await lab.delete(f"{TOPIC}?{query}")):
        assert answer.status_code == 400
    assert lab.admin.seen == []


@pytest.mark.parametrize(
    "path", [f"{TOPIC}?isGlobal=false", f"{TOPIC}?isGlobal=", f"{NAMESPACE}?isGlobal=true"]
)
async def test_other_values_mean_the_local_policy(lab: Lab, path: str) -> None:
    """Namespaces have one policy, and brokers ignore the parameter."""
    assert (await lab.set(path, {**NATIVE, **FIXED})).status_code == 204
    assert (await lab.get(path)).json()["fixedDeliveryDelayInMillis"] == 5000


async def test_an_empty_document_removes_a_global_policy(lab: Lab) -> None:
    await lab.set(TOPIC, {**NATIVE, **FIXED})
    stored = lab.services.stored()
    answer = await lab.client.post(GLOBAL, content=b"null", headers={"content-type": "application/json"})
    assert answer.status_code == 204
    assert lab.services.stored() == stored
