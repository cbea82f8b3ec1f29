"""What a topic has below `/topics` and `/namespaces`. It is only read here; nothing ever writes there."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sluicegate.store.metadata.metadata_store import MetadataStore
from sluicegate_danube.failover.keys import (
    NamespaceEntry,
    TopicEntry,
    namespace_key,
    parse,
    topic_key,
)

T = TypeVar("T")
_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Topics that lack entries which brokers look for before they create a topic."""

    without_policy: tuple[str, ...] = ()
    without_schema: tuple[str, ...] = ()


async def unlisted(store: MetadataStore, topics: Iterable[str]) -> set[str]:
    """The topics that have no durable entry at all: they are being deleted, or never were created."""
    wanted = set(topics)
    listed: set[str] = set()
    for namespace in sorted({topic.split("/")[1] for topic in wanted}):
        listing = await store.list(f"{namespace_key(namespace, 'topics')}/")
        for entry in listing.entries:
            key = parse(entry.key)
            if isinstance(key, NamespaceEntry):
                listed.add(key.part.removeprefix("topics"))
    missing = sorted(wanted - listed)
    parts = await _parts(store, missing)
    return {topic for topic, entries in zip(missing, parts, strict=True) if not entries}


async def incomplete(store: MetadataStore, topics: Iterable[str]) -> Incomplete:
    """Which of some topics have no policy, and which no schema."""
    wanted = sorted(topics)
    parts = await _parts(store, wanted)
    stored = list(zip(wanted, parts, strict=True))
    return Incomplete(
        tuple(topic for topic, has in stored if "policy" not in has),
        tuple(topic for topic, has in stored if not {"schema", "schema_subject"} & has),
    )


async def _parts(store: MetadataStore, topics: Sequence[str]) -> list[set[str]]:
    """The entries of each topic by the first part of their names; an empty name is the topic's own."""
    parts: list[set[str]] = []
    for some in _slices(topics, _AT_ONCE):
        parts += await asyncio.gather(*(_parts_of(store, topic) for topic in some))
    return parts


async def _parts_of(store: MetadataStore, topic: str) -> set[str]:
    below = await store.list(f"{topic_key(topic)}/")
    keys = [parse(entry.key) for entry in below.entries]
    parts = {key.part.partition("/")[0] for key in keys if isinstance(key, TopicEntry)}
    if not parts and await store.get(topic_key(topic)) is not None:
        parts.add("")
    return parts


def _slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
