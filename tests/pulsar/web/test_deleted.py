"""A fixed delay goes with its topic, its namespace or its tenant, as Pulsar's own policies do."""

from collections.abc import AsyncIterator

import pytest
from tests.pulsar.web.lab import NAMESPACE, TOPIC, TOPIC_NAME, Lab, config

from sluicegate.model import Level
from sluicegate_pulsar.web.gone import GonePolicies
from sluicegate_pulsar.web.site import PulsarSite

Answer = tuple[int, dict[str, str], bytes]
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


@pytest.fixture
async def gone(lab: Lab) -> AsyncIterator[GonePolicies]:
    """What looks at the broker, as the gateway itself."""
    site = PulsarSite(config(lab.admin_url, admin={"url": lab.admin_url, "token": "own"}), lab.services)
    yield site._gone
    await site.close()


TOPIC_GONE: Answer = (404, {}, b'{"reason": "Topic persistent://public/default/orders not found"}')


@pytest.mark.parametrize("is_made_again", [True, False])
@pytest.mark.parametrize("path", [TOPIC, NAMESPACE])
async def test_what_is_deleted_at_the_broker_has_no_delay_any_more(
    lab: Lab, gone: GonePolicies, path: str, is_made_again: bool
) -> None:
    await set_all(lab)
    before = left(lab)
    await gone.look()
    assert lab.admin.seen[-1].header("authorization") == "Bearer own"
    if is_made_again:
        del lab.admin.policies[path]
    else:
        lab.admin.fixed[path] = TOPIC_GONE
    await gone.look()
    assert left(lab) == before  # brokers tell a new policy of a topic some time later
    await gone.look()
    assert before - left(lab) == {TOPIC_NAME if path == TOPIC else "public/default"}


async def test_what_comes_back_starts_anew(lab: Lab, gone: GonePolicies) -> None:
    await set_all(lab)
    for _ in range(3):
        await gone.look()
        lab.admin.fixed[TOPIC] = TOPIC_GONE
        await gone.look()
        del lab.admin.fixed[TOPIC]
    assert len(left(lab)) == 4


async def test_a_delay_without_a_policy_at_the_broker_stays(lab: Lab, gone: GonePolicies) -> None:
    """The command line sets it, maybe before there is a topic."""
    await lab.services.change(Level.TOPIC, TOPIC_NAME, {"fixed_delivery_delay": 5_000}, "command line")
    answers: list[Answer] = [TOPIC_GONE, (204, {}, b"")]
    for answer in answers:
        lab.admin.fixed[TOPIC] = answer
        for _ in range(3):
            await gone.look()
    assert left(lab) == {TOPIC_NAME}


@pytest.mark.parametrize(
    "answer",
    [(404, {}, b"<h1>Not found</h1>"), (200, {}, b""), (401, {}, b'{"reason": "who?"}'), (500, {}, b"")],
)
async def test_what_is_no_answer_of_a_broker_removes_nothing(
    lab: Lab, gone: GonePolicies, answer: Answer
) -> None:
    """Such as that of a load balancer: the delay would be gone, and messages early."""
    await set_all(lab)
    await gone.look()
    lab.admin.fixed[TOPIC] = answer
    for _ in range(3):
        await gone.look()
    assert len(left(lab)) == 4


async def test_many_are_looked_at_one_part_after_the_other(
    lab: Lab, gone: GonePolicies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate_pulsar.web.gone._MOST", 3)
    await set_all(lab)
    asked = []
    for _ in range(3):
        seen = len(lab.admin.seen)
        await gone.look()
        asked.append(len(lab.admin.seen) - seen)
    assert asked == [3, 1, 3]
