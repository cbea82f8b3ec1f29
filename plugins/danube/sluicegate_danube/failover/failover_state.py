"""The state of a cluster's failover, as data and as text."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluicegate.store.metadata.metadata_store import Listing, MetadataStore
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.durable import incomplete, unlisted
from sluicegate_danube.failover.values import ValueShapeError, leader_id
from sluicegate_danube.failover.view import ClusterView


async def status(store: MetadataStore) -> dict[str, Any]:
    """What `sluicegate danube failover status --json` prints.

    :raises StoreError: if the store cannot be used.
    """
    view = ClusterView.of(await store.list(keys.CLUSTER))
    controllers = _controllers(await store.list(keys.CONTROLLERS))
    foreign = await store.get(keys.FOREIGN_WRITER)
    topics = view.owners.keys() | view.unassigned.keys()
    lacking = await incomplete(store, topics)
    return {
        "revision": view.revision,
        "leader": _leader(view, controllers),
        "controllers": controllers,
        "brokers": [
            _broker(view, broker) for broker in sorted(view.registrations.keys() | view.owned.keys())
        ],
        "topics": {
            "owned": len(view.owners),
            "unassigned": sorted(view.unassigned),
            "owned_twice": view.owned_twice(),
            "unlisted": sorted(await unlisted(store, topics)),
            "without_policy": list(lacking.without_policy),
            "without_schema": list(lacking.without_schema),
        },
        "problems": [{"key": key, "problem": problem} for key, problem in sorted(view.problems.items())],
        "foreign_write": foreign.value.decode(errors="replace") if foreign is not None else None,
    }


def _controllers(listing: Listing) -> list[int]:
    parsed = (keys.parse(entry.key) for entry in listing.entries)
    return [key.controller for key in parsed if isinstance(key, keys.Controller)]


def _leader(view: ClusterView, controllers: list[int]) -> dict[str, Any] | None:
    if view.leader is None:
        return None
    try:
        leader: int | str = leader_id(view.leader.value)
    except ValueShapeError:
        leader = view.leader.value[:40].decode(errors="replace")
    return {"id": leader, "kind": "controller" if leader in controllers else "another load manager"}


def _broker(view: ClusterView, broker: int) -> dict[str, Any]:
    alive = broker in view.registrations
    return {
        "id": broker,
        "address": view.address(broker) if alive else None,
        "state": ("active" if view.is_active(broker) else "inactive") if alive else "dead",
        "topics": len(view.owned.get(broker, ())),
        "usage_percent": round(view.usage(broker), 1),
    }


def lines(state: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    leader = state["leader"]
    yield f"leader: {leader['id']} ({leader['kind']})" if leader else "leader: none"
    waiting = len(state["controllers"]) - (leader is not None and leader["kind"] == "controller")
    yield f"controllers that stand by: {waiting}"
    for broker in state["brokers"]:
        where = f" at {broker['address']}" if broker["address"] else ""
        yield f"broker {broker['id']}{where}: {broker['state']}, {broker['topics']} topics"
    topics = state["topics"]
    yield f"topics: {topics['owned']} owned, {len(topics['unassigned'])} unassigned"
    for name, what in _FAULTS.items():
        for topic in topics[name]:
            yield f"{topic}: {what}"
    for problem in state["problems"]:
        yield f"{problem['key']}: {problem['problem']}"
    if state["foreign_write"]:
        yield f"{state['foreign_write']}: written by another load manager within the last minute"


_FAULTS = {
    "unassigned": "waits for an owner",
    "owned_twice": "has two live owners",
    "unlisted": "has no durable entry",
    "without_policy": "has no policy",
    "without_schema": "has no schema",
}
