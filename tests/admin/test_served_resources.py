"""All policies of a broker over the admin API, for processes that apply them themselves."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.admin.lab import Lab, Supervised

from sluicegate.config.fields import PolicyFields
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import TopicName, version_text
from sluicegate.runtime.plugins import CHOICE
from sluicegate.runtime.served_policies import ServedPolicies
from sluicegate_kafka.config import KafkaConfig

PATH = "/policies/in-force"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setenv(CHOICE, "kafka")
    made = Lab(Supervised(tmp_path))
    yield made
    made.close()


def edit(field: str, value: object) -> dict[str, object]:
    edits = [{"level": "topic", "name": "orders.eu", "field": field, "value": value}]
    return {"edits": edits, "reason": ""}


async def test_a_process_reads_the_same_policies_as_the_gateway_has(lab: Lab) -> None:
    for field, value in (("max_publish_rate", "5/s"), ("mode.max_publish_rate", "observe")):
        assert (await lab.ask("PATCH", "/policies", json=edit(field, value))).status_code == 200
    watch = lab.supervised.watch
    answer = await lab.ask("GET", f"{PATH}?broker=main", "token-viewer")
    assert answer.headers["etag"] == f'"{version_text(watch.version)}"'
    served = ServedPolicies.model_validate_json(answer.content)
    fields: PolicyFields = watch.loaded.fields
    assert served.policy_set(fields) == watch.policies("main")
    entry = served.broker_config(KafkaConfig)
    assert (entry.name, entry.system, entry.max_hold) == ("main", "kafka", 10_000)


async def test_it_shows_no_addresses_and_no_logins(lab: Lab) -> None:
    answer = (await lab.ask("GET", PATH)).json()
    assert answer["entry"].keys() == KafkaConfig.client_keys
    assert "127.0.0.1" not in str(answer)


async def test_who_may_read_may_ask(lab: Lab) -> None:
    assert (await lab.ask("GET", PATH, None)).status_code == 200
    assert (await lab.ask("GET", PATH, None, client="192.0.2.1")).status_code == 403
    assert (await lab.ask("GET", PATH, "token-prometheus")).status_code == 401
    assert (await lab.ask("GET", f"{PATH}?broker=other")).status_code == 404
    assert (await lab.ask("GET", f"{PATH}?wait=61")).status_code == 400


async def test_a_known_version_is_answered_once_there_is_another(lab: Lab) -> None:
    before = (await lab.ask("GET", PATH)).headers["etag"]
    known = {"if-none-match": before}
    assert (await lab.ask("GET", PATH, headers=known)).status_code == 304
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(lab.ask("GET", f"{PATH}?wait=60", headers=known))
        assert (await lab.ask("PATCH", "/policies", json=edit("max_publish_rate", "5/s"))).status_code == 200
    changed = waiting.result()
    assert changed.status_code == 200
    assert changed.headers["etag"] != before
    known = {"if-none-match": changed.headers["etag"]}
    assert (await lab.ask("GET", f"{PATH}?wait=1", headers=known)).status_code == 304


async def test_a_gateway_that_ends_keeps_nobody_waiting(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"if-none-match": (await lab.ask("GET", PATH)).headers["etag"]}
    monkeypatch.setattr(Supervised, "not_ready", lambda self: ["draining"])
    assert (await lab.ask("GET", f"{PATH}?wait=60", headers=known)).status_code == 304


SCOPED = """
  scopes:
    - {for: {principals: ["User:b*"]}, max_publish_rate: 5/s}
    - {for: {principals: ["User:a*"]}, max_publish_rate: 7/s, ceiling: {max_dispatch_rate: 9/s}}
  topics:
    - {name: orders.eu, for: {principals: ["User:*b"], groups: [g]}, max_publish_rate: 1/s}
"""


async def test_scopes_are_served_and_explained_as_they_apply_in_the_gateway(lab: Lab) -> None:
    path = lab.supervised.path
    path.write_text(path.read_text() + SCOPED)
    assert lab.supervised.watch.check()
    watch = lab.supervised.watch

    served = ServedPolicies.model_validate_json((await lab.ask("GET", PATH)).content)
    both = (served.policy_set(watch.loaded.fields), watch.policies("main"))
    mine, theirs = (
        sorted(each.layers, key=lambda one: (one.level, one.name, str(one.scope))) for each in both
    )
    assert mine == theirs
    topic = TopicName("orders.eu", "orders")
    of_client, of_gateway = (Resolver(each, {}).scopes(topic) for each in both)
    assert of_client == of_gateway
    assert len(of_gateway) == 3

    found = await lab.ask("GET", "/policies/effective?topic=orders.eu&principal=User:bob&group=g")
    assert found.json()["policies"]["max_publish_rate"]["scope"] == "principals User:*b and groups g"
    rows = (await lab.ask("GET", "/policies?field=max_publish_rate&level=topic")).json()["settings"]
    assert [row["scope"] for row in rows] == ["principals User:*b and groups g"]
    assert (await lab.ask("GET", f"/policies/effective?topic=t&client={'c' * 5_000}")).status_code == 400
