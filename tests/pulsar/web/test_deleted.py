"""A fixed delay goes with its topic, its namespace or its tenant, as Pulsar's own policies do."""

import pytest
from tests.pulsar.web.lab import NAMESPACE, TOPIC, TOPIC_NAME, Lab

from sluicegate.model import Level

FIXED = {"fixedDeliveryDelayInMillis": 5000}
IN_TOPIC = "/admin/v2/persistent/public/default/orders"
IN_NAMESPACE = "/admin/v2/namespaces/public/default"


async def set_all(lab: Lab) -> None:
    """A delay for a topic, another one, one of another namespace, and the namespace."""
    for path in (TOPIC, TOPIC.replace("orders", "orders2"), TOPIC.replace("default", "defaults"), NAMESPACE):
        assert (await lab.set(path, FIXED)).status_code == 204


def left(lab: Lab) -> set[str]:
    """What still has a delay."""
    names = {
        Level.TOPIC: [TOPIC_NAME, f"{TOPIC_NAME}2", TOPIC_NAME.replace("default", "defaults")],
        Level.NAMESPACE: ["public/default"],
    }
    return {name for level, some in names.items() for name in some if lab.services.stored(level, name)}


OTHER_TOPIC, OTHER_NAMESPACE = f"{TOPIC_NAME}2", TOPIC_NAME.replace("default", "defaults")


@pytest.mark.parametrize(
    ("path", "remaining"),
    [
        (f"{IN_TOPIC}?force=true", {OTHER_TOPIC, OTHER_NAMESPACE, "public/default"}),
        (f"{IN_TOPIC}/partitions", {OTHER_TOPIC, OTHER_NAMESPACE, "public/default"}),
        (f"{IN_NAMESPACE}?force=true", {OTHER_NAMESPACE}),
        ("/admin/v2/tenants/public", set()),
    ],
)
async def test_what_is_deleted_has_no_delay_any_more(lab: Lab, path: str, remaining: set[str]) -> None:
    await set_all(lab)
    assert (await lab.delete(path)).status_code == 200
    assert (lab.admin.seen[-1].method, lab.admin.seen[-1].target) == ("DELETE", path)
    assert left(lab) == remaining


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", f"{IN_TOPIC}-partition-0"),
        ("DELETE", f"{IN_TOPIC}/subscription/s"),
        ("DELETE", f"{IN_NAMESPACE}/retention"),
        ("DELETE", "/admin/v2/persistent/public/default/order"),
        ("DELETE", "/admin/v2/non-persistent/public/default/orders"),
        ("PUT", IN_TOPIC),
        ("GET", IN_NAMESPACE),
    ],
)
async def test_other_requests_leave_it(lab: Lab, method: str, path: str) -> None:
    await set_all(lab)
    await lab.client.request(method, path)
    assert len(left(lab)) == 4


@pytest.mark.parametrize("status", [403, 404, 409, 500])
async def test_it_stays_where_the_broker_refuses(lab: Lab, status: int) -> None:
    await set_all(lab)
    lab.admin.fixed[IN_TOPIC] = (status, {}, b'{"reason": "no"}')
    answer = await lab.delete(IN_TOPIC)
    assert (answer.status_code, answer.json()) == (status, {"reason": "no"})
    assert len(left(lab)) == 4
