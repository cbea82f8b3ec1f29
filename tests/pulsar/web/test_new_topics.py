"""Topics that administrators create through the web listener, and policies that apply to that."""

import pytest
from tests.pulsar.web.lab import FakeServices, Lab

from sluicegate.model import Level

PATH = "/admin/v2/persistent/public/default/orders"
NAME = "persistent://public/default/orders"
DOCUMENT = '{"partitions": 3, "properties": {}}'


async def set_policies(lab: Lab, **policies: object) -> None:
    services: FakeServices = lab.services
    await services.change(Level.NAMESPACE, "public/default", policies, "test")


@pytest.mark.parametrize(
    "path", [PATH, f"{PATH}/partitions", f"{PATH}-partition-3", f"{PATH}/?authoritative=true"]
)
async def test_a_topic_is_not_created_where_that_is_not_allowed(lab: Lab, path: str) -> None:
    await set_policies(lab, allow_topic_creation=False)
    answer = await lab.client.put(path, content="3")
    assert answer.status_code == 403
    assert answer.json()["reason"].startswith(f"Topic {NAME}")
    assert lab.admin.seen == []


@pytest.mark.parametrize("body", ["3", DOCUMENT, ' "3" ', "3.0"])
async def test_a_topic_has_so_many_partitions(lab: Lab, body: str) -> None:
    await set_policies(lab, max_partitions=2)
    for ask in (lab.client.put, lab.client.post):
        answer = await ask(f"{PATH}/partitions", content=body)
        assert answer.status_code == 403
        assert "Current: 3, Limit: 2." in answer.json()["reason"]
    assert lab.admin.seen == []
    await set_policies(lab, max_partitions=3)
    for ask in (lab.client.put, lab.client.post):
        await ask(f"{PATH}/partitions", content=body)
    assert [seen.body for seen in lab.admin.seen] == [body.encode()] * 2


@pytest.mark.parametrize("body", ["", "many", "[3]", "{}", "null", "Infinity", "[" * 10_000])
async def test_what_is_no_number_of_partitions_is_not_passed_where_they_are_limited(
    lab: Lab, body: str
) -> None:
    await set_policies(lab, max_partitions=2)
    assert (await lab.client.put(f"{PATH}/partitions", content=body)).status_code == 400
    assert lab.admin.seen == []


async def test_more_partitions_are_no_new_topic(lab: Lab) -> None:
    await set_policies(lab, allow_topic_creation=False)
    await lab.client.post(f"{PATH}/partitions", content="3")
    await lab.client.put(f"{PATH}/subscription/s", content="{}")
    await lab.client.delete(PATH)
    assert [seen.method for seen in lab.admin.seen] == ["POST", "PUT", "DELETE"]


async def test_what_is_only_observed_is_created(lab: Lab) -> None:
    await set_policies(lab, allow_topic_creation=False, max_partitions=1)
    lab.services.observe_only = True
    await lab.client.put(f"{PATH}/partitions", content=DOCUMENT, headers={"Content-Type": "text/x"})
    [seen] = lab.admin.seen
    assert (seen.method, seen.target, seen.body) == ("PUT", f"{PATH}/partitions", DOCUMENT.encode())
    assert dict(seen.headers)["content-type"] == "text/x"


@pytest.mark.parametrize("name", ["checkAllowAutoCreation", "check%41llowAutoCreation"])
async def test_a_question_for_partitions_creates_only_what_it_may(lab: Lab, name: str) -> None:
    target = f"{PATH}/partitions?authoritative=false&{name}=true"
    await lab.client.get(target)
    await set_policies(lab, allow_topic_creation=False)
    await lab.client.get(target)
    asked = [seen.target for seen in lab.admin.seen]
    assert asked == [target, f"{PATH}/partitions?authoritative=false"]
