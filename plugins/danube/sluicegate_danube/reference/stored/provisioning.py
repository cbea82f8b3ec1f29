"""What namespaces and topics have in the metadata store, and the making of both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate.store.metadata import MetadataStore, Put, Unchanged
from sluicegate_danube.failover.keys import (
    EMPTY,
    namespace_key,
    namespace_topic_key,
    topic_key,
    unassigned_key,
)

POLICY, SCHEMA, DELIVERY = "policy", "schema", "delivery"
PARTS = (POLICY, SCHEMA, DELIVERY)
"""What a broker needs to know of a topic before it serves it."""
RELIABLE, UNRELIABLE = "Reliable", "NonReliable"
"""What the entry `delivery` says."""


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """What the entries of a topic say."""

    reliable: bool = False
    schema_subject: str = ""
    policy: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    """What is missing or cannot be read; defaults stand for it."""


def read_topic(topic: str, entries: Mapping[str, bytes]) -> TopicMetadata:
    """What the entries of a topic say, defaults for those that are missing or of no known shape.

    :param entries: by key; others may be among them.
    """
    said: dict[str, Any] = {}
    problems: list[str] = []
    for part in PARTS:
        value = entries.get(topic_key(topic, part))
        if value is None:
            problems.append(f"{part} is missing")
            continue
        try:
            said[part] = json.loads(value)
        except (ValueError, RecursionError):
            problems.append(f"{part} is no JSON")
    delivery = said.get(DELIVERY, UNRELIABLE)
    if delivery not in (RELIABLE, UNRELIABLE):
        problems.append(f"{DELIVERY} is neither {RELIABLE!r} nor {UNRELIABLE!r}")
    policy, schema = said.get(POLICY) or {}, said.get(SCHEMA) or {}
    if not isinstance(policy, dict):
        problems.append(f"{POLICY} is no object")
        policy = {}
    if not (isinstance(schema, dict) and isinstance(schema.get("subject", ""), str)):
        problems.append(f"{SCHEMA} is no object with a subject")
        schema = {}
    return TopicMetadata(delivery == RELIABLE, schema.get("subject", ""), policy, tuple(problems))


def schema_value(subject: str) -> bytes:
    """The entry `schema` of a topic whose messages follow a subject; empty for none."""
    return json.dumps({"subject": subject} if subject else None).encode()


async def create_namespace(
    store: MetadataStore, namespace: str, policy: Mapping[str, Any] | None = None
) -> bool:
    """Make a namespace.

    :return: False if there is one already; it stays as it is.
    """
    key = namespace_key(namespace, POLICY)
    return await store.transact([Unchanged(key, 0)], [Put(key, json.dumps(policy or {}).encode())])


async def create_topic(
    store: MetadataStore,
    topic: str,
    *,
    reliable: bool = False,
    policy: Mapping[str, Any] | None = None,
    schema_subject: str = "",
) -> bool:
    """Make a topic, which then waits for an owner; its namespace is made if there is none.

    :param topic: `/namespace/topic`.
    :return: False if there is one already; it stays as it is.
    :raises ValueError: if that is no name of a topic.
    """
    delivery = topic_key(topic, DELIVERY)
    await create_namespace(store, topic.split("/")[1])
    return await store.transact(
        [Unchanged(delivery, 0)],
        [
            Put(delivery, json.dumps(RELIABLE if reliable else UNRELIABLE).encode()),
            Put(topic_key(topic, POLICY), json.dumps(policy or {}).encode()),
            Put(topic_key(topic, SCHEMA), schema_value(schema_subject)),
            Put(namespace_topic_key(topic), EMPTY),
            Put(unassigned_key(topic), EMPTY),
        ],
    )
