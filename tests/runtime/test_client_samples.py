"""Principals and client ids: the busiest are named, all others are summed up, and no sum falls."""

from collections.abc import Mapping
from typing import Any

from tests.runtime.sampled import EXEMPT, WAITING, Sampled

from sluicegate import hookimpl
from sluicegate.broker import BrokerContext
from sluicegate.engine.quota import Quota
from sluicegate.runtime.busiest import BusiestNames
from sluicegate.runtime.labels import OTHER


def messages(samples: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {name: sample["published_messages"] for name, sample in samples.items()}


def test_principals_and_client_ids_beyond_the_bound_are_summed_as_other() -> None:
    broker = Sampled({}, named=2)
    for number in range(5):
        broker.publish(10, principal=f"p{number}", client=f"c{number}@h:1")
        broker.publish(1, principal=f"p{number}", client=f"c{number}@h:2")
    broker.tick(2)
    assert messages(broker.clients.principals) == {"p0": 11, "p1": 11, OTHER: 33}
    assert messages(broker.clients.clients) == {"c0": 11, "c1": 11, OTHER: 33}


def test_the_busiest_get_names_and_no_sum_falls() -> None:
    names = BusiestNames(1, (0,), limit=2)
    for name in ("a", "b", "c"):
        names.add(name, (10,))
    names.add("c", (100,))
    names.review()
    assert names.labelled() == {"b": (10,), "c": (0,), OTHER: (110,)}
    names.add("a", (5,))
    names.add("c", (7,))
    assert names.labelled() == {"b": (10,), "c": (7,), OTHER: (115,)}
    names.review()
    assert names.labelled() == {"a": (0,), "c": (7,), OTHER: (115,)}


def test_idle_clients_are_forgotten_and_their_sums_stay() -> None:
    broker = Sampled({})
    broker.publish(10, principal="ann", client="old@h:1")
    broker.tick(120, lambda: broker.publish(1, principal="ann", client="new@h:1"))
    kept = [totals.client_id for totals in broker.host.gates.broker.clients if totals.client_id]
    assert kept == ["new"]
    assert messages(broker.clients.principals) == {"ann": 130}
    assert messages(broker.clients.clients) == {"old": 10, "new": 120}
    broker.publish(5, principal="ann", client="old@h:1")
    broker.tick()
    assert messages(broker.clients.clients)["old"] == 15


def test_a_client_without_an_id_is_named_by_its_host_and_one_called_other_apart() -> None:
    broker = Sampled({})
    broker.publish(1, principal="ann", client="10.0.0.1:7")
    broker.publish(2, principal="other", client="other@10.0.0.1:7")
    broker.publish(4, principal="", client="")
    broker.tick()
    assert messages(broker.clients.clients) == {"10.0.0.1": 1, "other_": 2, OTHER: 4}
    assert messages(broker.clients.principals) == {"ann": 1, "other_": 2, OTHER: 4}


def test_held_requests_count_for_their_principal_and_client() -> None:
    broker = Sampled({"max_publish_rate": 10, **WAITING}, named=1)
    for number in (1, 2, 3):
        broker.publish(10, principal=f"p{number}", client="c@h:1")
    broker.tick()
    held = {name: sample["held"] for name, sample in broker.clients.principals.items()}
    assert held == {"p1": 0, OTHER: 2}
    assert broker.clients.clients["c"]["held"] == 2
    assert broker.samples.latest["t"]["held"] == 2


def test_quotas_of_principals_and_what_they_use() -> None:
    entry = {"quotas": [{"principal": "ann", "messages": 100, "bytes": 4000}]}
    broker = Sampled({"principal_publish_quota": 500}, entry=entry)

    def publish() -> None:
        broker.publish(50, principal="ann")
        broker.publish(20, principal="bob", topic="u")
        broker.publish(999, principal=EXEMPT)

    broker.tick(11, publish)
    principals = broker.clients.principals
    assert principals["ann"]["use"] == {
        "principal_publish_quota": {"limit": 100, "in_force": 100, "used_1s": 50, "used_10s": 50},
        "principal_publish_quota_bytes": {"limit": 4000, "in_force": 4000, "used_1s": 500, "used_10s": 500},
    }
    assert principals["bob"]["use"]["principal_publish_quota"]["limit"] == 500
    broker.disk.factor.set(0.5, "full")
    broker.set({"principal_publish_quota": 600})
    broker.tick(1, publish)
    assert broker.clients.principals["bob"]["use"] == {
        "principal_publish_quota": {"limit": 600, "in_force": 300, "used_1s": 20, "used_10s": 20}
    }
    broker.set({})
    broker.tick()
    assert "use" not in broker.clients.principals["bob"]


class Teams:
    """Gives all principals of a team one quota."""

    @hookimpl
    def sluicegate_quota(self, principal: str, context: BrokerContext) -> Quota | None:
        return Quota(100, 0, principal.partition("-")[0])


def test_a_quota_that_principals_share_is_used_by_all_of_them() -> None:
    broker = Sampled({}, plugins=[Teams()])

    def publish() -> None:
        for principal, count in (("red-1", 10), ("red-2", 20), ("blue-1", 40)):
            broker.publish(count, principal=principal)

    broker.tick(3, publish)
    used = {
        name: sample["use"]["principal_publish_quota"]["used_1s"]
        for name, sample in broker.clients.principals.items()
    }
    assert used == {"red-1": 30, "red-2": 30, "blue-1": 40}
