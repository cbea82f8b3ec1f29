"""Global topic policies (`?isGlobal=true`) through the web listener, which are the broker's own."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.admin import Admin, AdminError, policy_path
from tests.pulsar.real.support.gate import Gate
from tests.waiting import until

POLICY = "delayedDelivery"
NATIVE = {"active": True, "tickTime": 200, "maxDeliveryDelayInMillis": 2000}
FIXED = {"fixedDeliveryDelayInMillis": 3_600_000}


@pytest.fixture
def web(gate: Gate) -> Iterator[Admin]:
    """The admin API through the gateway."""
    with closing(gate.web()) as found:
        yield found


def global_policy(server: Admin, topic: str) -> Any:
    """The global policy as a server tells it."""
    return server.get(policy_path(topic, POLICY), isGlobal="true")


@pytest.mark.seed("S2-011", "S2-012", "S2-013")
def test_global_and_local_policies_are_separate(admin: Admin, web: Admin, new_topic: NewTopic) -> None:
    topic = new_topic()
    path = policy_path(topic, POLICY)
    web.post(path, NATIVE, isGlobal="true")
    until(lambda: global_policy(admin, topic) == NATIVE, "the broker has the global policy")
    assert admin.policy(topic, POLICY) is None
    assert web.policy(topic, POLICY) is None

    web.set_policy(topic, POLICY, FIXED)
    assert global_policy(web, topic) == NATIVE
    web.delete(path, isGlobal="true")
    until(lambda: global_policy(admin, topic) is None, "the broker has no global policy left")
    assert web.policy(topic, POLICY)["fixedDeliveryDelayInMillis"] == FIXED["fixedDeliveryDelayInMillis"]


@pytest.mark.seed("S2-011")
def test_a_global_policy_has_no_fixed_delay(admin: Admin, web: Admin, new_topic: NewTopic) -> None:
    topic = new_topic()
    with pytest.raises(AdminError, match="set it without isGlobal") as refused:
        web.post(policy_path(topic, POLICY), NATIVE | FIXED, isGlobal="true")
    assert refused.value.status == 412
    assert global_policy(admin, topic) is None
    assert web.policy(topic, POLICY, applied=True).get("fixedDeliveryDelayInMillis", 0) == 0
