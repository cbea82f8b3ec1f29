"""The delayed-delivery policy over HTTP: what the broker is asked, what the store keeps, what clients see."""

import json
from typing import Any

import pytest
from tests.pulsar.web.fake_admin import FakeAdmin
from tests.pulsar.web.lab import NAMESPACE, TOPIC, TOPIC_NAME, FakeServices, Lab, lab_of

from sluicegate.model import Level, PolicyLayer, Setting, Source

NATIVE = {"active": True, "tickTime": 100, "maxDeliveryDelayInMillis": 2000}
INHERITS = {**NATIVE, "fixedDeliveryDelayInMillis": None}
"""Has a longest delay of its own, and the namespace's fixed one."""
OTHER = "/admin/v2/persistent/public/default/other/delayedDelivery"


def file_layer(level: Level, name: str, locked: bool = False, **values: int) -> PolicyLayer:
    settings = {
        field: Setting(value, Source.FILE, "gateway.yaml:9", locked) for field, value in values.items()
    }
    return PolicyLayer(level, name, settings)


@pytest.mark.seed("S2-001", "S2-011", "S2-012", "S2-013")
@pytest.mark.parametrize(
    ("path", "level", "name"),
    [(TOPIC, Level.TOPIC, TOPIC_NAME), (NAMESPACE, Level.NAMESPACE, "public/default")],
)
async def test_a_fixed_delay_is_set_shown_and_removed(lab: Lab, path: str, level: Level, name: str) -> None:
    whole = {**NATIVE, "fixedDeliveryDelayInMillis": 5000}
    assert (await lab.set(path, whole)).status_code == 204

    assert lab.services.stored(level, name) == {
        "fixed_delivery_delay": 5000,
        "max_delivery_delay": 2000,
        "delayed_delivery_active": True,
        "delayed_delivery_tick_time": 100,
    }
    shown = await lab.get(path)
    assert (shown.status_code, shown.json()) == (200, whole)

    assert (await lab.delete(path)).status_code == 204
    assert lab.services.stored(level, name) == {}
    assert (await lab.get(path)).status_code == 204
    assert lab.admin.policies == {}


@pytest.mark.seed("S2-003")
async def test_a_fixed_delay_clears_the_maximum_at_the_broker(lab: Lab) -> None:
    await lab.set(TOPIC, {**NATIVE, "fixedDeliveryDelayInMillis": 5000})
    assert lab.admin.policies[TOPIC] == {**NATIVE, "maxDeliveryDelayInMillis": 0}

    await lab.set(TOPIC, {**NATIVE, "fixedDeliveryDelayInMillis": 0})
    assert lab.admin.policies[TOPIC] == NATIVE


@pytest.mark.seed("S2-007", "S2-011", "S2-012")
@pytest.mark.parametrize("path", [TOPIC, NAMESPACE])
async def test_a_field_that_is_left_out_is_zero(lab: Lab, path: str) -> None:
    """As Pulsar's own longest delay is, which `real/test_web.py` measures."""
    await lab.set(path, {**NATIVE, "fixedDeliveryDelayInMillis": 5000})
    await lab.set(path, {"active": True, "tickTime": 100})
    expected = {**NATIVE, "maxDeliveryDelayInMillis": 0, "fixedDeliveryDelayInMillis": 0}
    assert (await lab.get(path)).json() == expected


async def test_a_topics_document_without_the_field_takes_it_out_of_its_namespaces_delay(lab: Lab) -> None:
    await lab.set(NAMESPACE, {"active": True, "fixedDeliveryDelayInMillis": 5000})
    await lab.set(TOPIC, NATIVE)
    assert (await lab.get(TOPIC, params={"applied": "true"})).json()["fixedDeliveryDelayInMillis"] == 0
    assert lab.admin.policies[TOPIC] == NATIVE


@pytest.mark.seed("S2-007")
async def test_zero_disables_an_inherited_delay_and_null_restores_it(lab: Lab) -> None:
    await lab.set(NAMESPACE, {"active": True, "fixedDeliveryDelayInMillis": 5000})

    await lab.set(TOPIC, {**NATIVE, "fixedDeliveryDelayInMillis": 0})
    assert (await lab.get(TOPIC, params={"applied": "true"})).json()["fixedDeliveryDelayInMillis"] == 0
    assert lab.admin.policies[TOPIC] == NATIVE

    await lab.set(TOPIC, {**NATIVE, "fixedDeliveryDelayInMillis": None})
    assert (await lab.get(TOPIC, params={"applied": "true"})).json()["fixedDeliveryDelayInMillis"] == 5000
    assert "fixedDeliveryDelayInMillis" not in (await lab.get(TOPIC)).json()
    assert lab.admin.policies[TOPIC]["maxDeliveryDelayInMillis"] == 0


async def test_without_a_fixed_delay_requests_pass_as_native(lab: Lab) -> None:
    assert (await lab.get(TOPIC)).status_code == 204
    assert (await lab.set(TOPIC, NATIVE)).status_code == 204

    assert json.loads(lab.admin.seen[-1].body) == NATIVE
    assert lab.admin.policies[TOPIC] == NATIVE
    assert (await lab.get(TOPIC)).json() == {**NATIVE, "fixedDeliveryDelayInMillis": 0}
    assert (await lab.get(OTHER, params={"applied": "true"})).json() == {
        "active": True,
        "tickTime": 1000,
        "maxDeliveryDelayInMillis": 0,
    }
    assert lab.services.stored()["max_delivery_delay"] == 2000


async def test_a_fixed_delay_alone_does_not_switch_delays_off(lab: Lab) -> None:
    await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 5000})
    assert lab.admin.policies[TOPIC] == {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 0}

    await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 6000, "active": False})
    assert lab.admin.policies[TOPIC]["active"] is False
    assert lab.services.stored()["delayed_delivery_active"] is False


@pytest.mark.seed("S2-002")
async def test_applied_merges_all_levels(admin: FakeAdmin) -> None:
    services = FakeServices([file_layer(Level.BROKER, "", max_delivery_delay=9000)])
    async with lab_of(admin, services) as lab:
        await lab.set(NAMESPACE, {"active": True, "tickTime": 50, "fixedDeliveryDelayInMillis": 5000})
        topic = (await lab.get(TOPIC, params={"applied": "true"})).json()
        assert (topic["fixedDeliveryDelayInMillis"], topic["maxDeliveryDelayInMillis"]) == (5000, 0)

        await lab.delete(NAMESPACE)
        for path in (TOPIC, NAMESPACE):
            found = (await lab.get(path, params={"applied": "true"})).json()
            assert found["maxDeliveryDelayInMillis"] == 9000
            assert "fixedDeliveryDelayInMillis" not in found


async def test_a_partition_and_other_spellings_mean_the_same_topic(lab: Lab) -> None:
    path = "/admin/v2/persistent/public/default/a%2Fb-partition-3/delayedDelivery"
    assert (await lab.set(path, {"fixedDeliveryDelayInMillis": 1})).status_code == 204

    assert lab.services.stored(name="persistent://public/default/a/b")["fixed_delivery_delay"] == 1
    assert lab.admin.seen[-1].target.startswith(path)


USERS = {"Bearer admin": {"GET", "POST", "DELETE"}, "Bearer reader": {"GET"}}
ADMIN = {"authorization": "Bearer admin"}


@pytest.mark.parametrize("path", [TOPIC, NAMESPACE])
@pytest.mark.parametrize(("token", "status"), [(None, 401), ("Bearer nobody", 401), ("Bearer reader", 403)])
async def test_the_gateway_grants_no_extra_rights(
    lab: Lab, path: str, token: str | None, status: int
) -> None:
    lab.admin.users = USERS
    headers = {"authorization": token} if token is not None else {}

    for document in ({"fixedDeliveryDelayInMillis": 5000}, NATIVE):
        assert (await lab.set(path, document, headers=headers)).status_code == status
    assert (await lab.delete(path, headers=headers)).status_code == status
    assert (await lab.client.post(path, headers=headers)).status_code == status
    assert lab.services.store.version() == 0

    allowed = await lab.set(path, NATIVE | {"fixedDeliveryDelayInMillis": 1}, headers=ADMIN)
    assert allowed.status_code == 204
    assert (await lab.get(path, headers=headers)).status_code == (200 if status == 403 else status)


async def test_refusals_of_the_broker_are_returned_unchanged(lab: Lab) -> None:
    lab.admin.fixed[TOPIC] = (405, {"x-from": "broker"}, b'{"reason":"Topic level policies is disabled"}')
    answer = await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 5000})

    assert (answer.status_code, answer.json()) == (405, {"reason": "Topic level policies is disabled"})
    assert answer.headers["x-from"] == "broker"
    assert lab.services.store.version() == 0


async def test_a_fixed_delay_above_the_brokers_maximum_is_refused(lab: Lab) -> None:
    lab.admin.static_max, lab.admin.stubborn = 4999, True
    lab.admin.policies[TOPIC] = dict(NATIVE)
    answer = await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 5000})

    assert answer.status_code == 409
    assert "delayed by more than 4999 ms" in answer.json()["reason"]
    assert lab.admin.policies[TOPIC] == NATIVE
    assert lab.services.store.version() == 0

    lab.admin.static_max = 5000
    assert (await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 5000})).status_code == 204


async def test_a_namespace_delay_above_a_topics_maximum_is_refused(
    lab: Lab,
) -> None:
    lab.admin.topics = [TOPIC_NAME, f"{TOPIC_NAME}-partition-0", "persistent://public/default/other"]
    lab.admin.policies[OTHER] = dict(NATIVE)
    answer = await lab.set(NAMESPACE, {"fixedDeliveryDelayInMillis": 5000})

    assert answer.status_code == 409
    assert "persistent://public/default/other" in answer.json()["reason"]
    assert NAMESPACE not in lab.admin.policies
    assert lab.services.store.version() == 0

    assert (await lab.set(NAMESPACE, {"fixedDeliveryDelayInMillis": 2000})).status_code == 204


async def test_the_gateway_keeps_a_topics_maximum_while_its_namespace_has_a_fixed_delay(lab: Lab) -> None:
    lab.admin.topics = [TOPIC_NAME, "persistent://public/default/other"]
    await lab.set(TOPIC, INHERITS)
    await lab.set(OTHER, NATIVE)

    assert (await lab.set(NAMESPACE, {"fixedDeliveryDelayInMillis": 5000})).status_code == 204
    assert lab.admin.policies[TOPIC] == {**NATIVE, "maxDeliveryDelayInMillis": 0}
    assert lab.admin.policies[OTHER] == NATIVE  # out of the namespace's delay
    assert (await lab.get(TOPIC)).json() == NATIVE

    assert (await lab.delete(NAMESPACE)).status_code == 204
    assert lab.admin.policies[TOPIC] == NATIVE


async def test_a_namespace_may_have_very_many_topics(lab: Lab) -> None:
    lab.admin.topics = [f"{TOPIC_NAME}-{'x' * 200}-partition-{number}" for number in range(20_000)]
    assert (await lab.set(NAMESPACE, {"fixedDeliveryDelayInMillis": 5_000})).status_code == 204
    assert lab.services.stored(Level.NAMESPACE, "public/default")["fixed_delivery_delay"] == 5_000


async def test_a_partial_failure_is_rolled_back(lab: Lab) -> None:
    lab.admin.topics = [TOPIC_NAME]
    await lab.set(TOPIC, INHERITS)
    await lab.set(NAMESPACE, {**NATIVE, "fixedDeliveryDelayInMillis": 0})
    before = lab.services.stored(Level.NAMESPACE, "public/default")
    lab.admin.failing.add(("POST", TOPIC))

    answer = await lab.set(NAMESPACE, {"fixedDeliveryDelayInMillis": 5000})

    assert answer.status_code == 409
    assert TOPIC_NAME in answer.json()["reason"]
    assert lab.admin.policies[NAMESPACE] == NATIVE
    assert lab.services.stored(Level.NAMESPACE, "public/default") == before


async def test_a_store_that_cannot_be_written_changes_nothing(lab: Lab) -> None:
    lab.services.down = True
    answer = await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 5000})

    assert answer.status_code == 503
    assert answer.json()["reason"] == "the policy store cannot be written now: try again"
    assert lab.admin.policies == {}


async def test_locked_values_cannot_be_changed(admin: FakeAdmin) -> None:
    layers = [file_layer(Level.TOPIC, TOPIC_NAME, locked=True, fixed_delivery_delay=7000)]
    async with lab_of(admin, FakeServices(layers)) as lab:
        answer = await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 5000})
        assert answer.status_code == 409
        assert answer.json()["reason"] == (
            "fixed_delivery_delay is locked in the gateway's configuration (gateway.yaml:9)"
        )
        assert lab.admin.policies == {}

        # What it says already may be said again, and the rest is free; the broker gets no longest delay.
        assert (await lab.set(TOPIC, NATIVE | {"fixedDeliveryDelayInMillis": 7000})).status_code == 204
        assert lab.admin.policies[TOPIC]["maxDeliveryDelayInMillis"] == 0


@pytest.mark.parametrize("observed", ["everything", "policy"])
async def test_an_observed_delay_keeps_the_maximum_at_the_broker(lab: Lab, observed: str) -> None:
    if observed == "everything":
        lab.services.observe_only = True
    else:
        layer = PolicyLayer(Level.BROKER, "", {"mode.fixed_delivery_delay": Setting("observe", Source.FILE)})
        lab.services.layers = (layer,)
    await lab.set(TOPIC, NATIVE | {"fixedDeliveryDelayInMillis": 5000})
    assert lab.admin.policies[TOPIC] == NATIVE


@pytest.mark.seed("S2-025")
@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b'{"fixedDeliveryDelayInMillis": 5', 400, "malformed JSON"),
        (b"[" * 60_000, 400, "malformed JSON"),
        (b"[]", 400, "expected a JSON object"),
        (b'"5s"', 400, "expected a JSON object"),
        (b'{"fixedDeliveryDelayInMillis": "5s"}', 400, "fixedDeliveryDelayInMillis: expected a whole number"),
        (b'{"fixedDeliveryDelayInMillis": 1.5}', 400, "got 1.5"),
        (b'{"fixedDeliveryDelayInMillis": true}', 400, "got true"),
        (b'{"fixedDeliveryDelayInMillis": NaN}', 400, "NaN is no JSON"),
        (b'{"maxDeliveryDelayInMillis": 9223372036854775808}', 400, "maxDeliveryDelayInMillis: expected"),
        (b'{"tickTime": {}}', 400, "tickTime: expected"),
        (b'{"active": 1}', 400, "active: expected true or false, got 1"),
        (b'{"fixedDeliveryDelayInMillis": -1}', 412, "-1 is negative"),
        (b'{"fixedDeliveryDelayInMillis": 3155760000001}', 412, "at most 36525d"),
        (b'{"maxDeliveryDelayInMillis": 9223372036854775807}', 412, "at most 36525d"),
        (b" " * 65_537, 413, "larger than 65536 bytes"),
    ],
)
async def test_an_invalid_policy_is_refused_and_changes_nothing(
    lab: Lab, body: bytes, status: int, reason: str
) -> None:
    answer = await lab.client.post(TOPIC, content=body, headers={"content-type": "application/json"})

    assert answer.status_code == status
    assert reason in answer.json()["reason"]
    assert lab.services.store.version() == 0
    assert lab.admin.policies == {}
    assert (await lab.get("/admin/v2/clusters")).status_code == 200


@pytest.mark.parametrize("body", [b"", b"null"])
async def test_an_empty_document_removes_the_policy(lab: Lab, body: bytes) -> None:
    await lab.set(TOPIC, NATIVE | {"fixedDeliveryDelayInMillis": 5000})
    lab.admin.fixed[TOPIC] = (204, {}, b"")

    assert (await lab.client.post(TOPIC, content=body)).status_code == 204
    assert lab.admin.seen[-1].body == body
    assert lab.services.stored() == {}


async def test_an_invalid_policy_from_the_broker_is_a_bad_gateway(lab: Lab) -> None:
    lab.admin.fixed[TOPIC] = (200, {}, b"[1]")
    assert (await lab.get(TOPIC)).status_code == 502


@pytest.mark.parametrize("method", ["PUT", "OPTIONS"])
async def test_other_methods_are_forwarded(lab: Lab, method: str) -> None:
    lab.admin.fixed[TOPIC] = (405, {}, b"")
    answer: Any = await lab.client.request(method, TOPIC)
    assert (answer.status_code, lab.admin.seen[-1].method) == (405, method)


async def test_the_callers_own_credentials_reach_the_broker_each_time(lab: Lab) -> None:
    lab.admin.users = USERS
    await lab.set(TOPIC, NATIVE | {"fixedDeliveryDelayInMillis": 5000}, headers=ADMIN)
    assert len(lab.admin.seen) >= 3
    assert {seen.header("authorization") for seen in lab.admin.seen} == {"Bearer admin"}
