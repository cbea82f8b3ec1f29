"""What became of a topic, and of keys: by look-ups, and by all that etcd has seen since a revision."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from itertools import count

import grpc.aio
from danube.proto import DanubeApi_pb2 as pb
from danube.proto import DanubeApi_pb2_grpc as services
from tests.waiting import LONG_S

from sluicegate.store.metadata import Event, MetadataStore
from sluicegate_danube.failover import keys

_END = "/test/end"
_PAUSE_S = 0.05
_ends = count(1)


@asynccontextmanager
async def channel(url: str) -> AsyncIterator[grpc.aio.Channel]:
    """A plain channel to a broker or the gateway; it connects again at once when its connection is lost."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 50)]
    options.append(("grpc.max_reconnect_backoff_ms", 50))
    async with grpc.aio.insecure_channel(url.removeprefix("http://"), options) as made:
        yield made


async def looked_up(stub: services.DiscoveryStub, topic: str) -> str:
    """Where a topic is served, as a look-up says; empty while it cannot say."""
    try:
        answer = await stub.TopicLookup(pb.TopicLookupRequest(request_id=1, topic=topic), timeout=LONG_S)
    except grpc.aio.AioRpcError as error:
        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND):
            raise
        return ""
    return str(answer.connect_url)


async def until_at(asked: str, topic: str, url: str) -> None:
    """Poll the look-up until it names a URL.

    :param asked: URL of the broker or gate that is asked.
    :raises TimeoutError: if it never does.
    """
    async with channel(asked) as made, asyncio.timeout(LONG_S):
        stub = services.DiscoveryStub(made)
        while await looked_up(stub, topic) != url:  # noqa: ASYNC110 - another process's doing
            await asyncio.sleep(_PAUSE_S)


async def until_some_key(store: MetadataStore, *wanted: str) -> None:
    """Return once one of some keys is there.

    :raises TimeoutError: if none ever is.
    """
    async with asyncio.timeout(LONG_S):
        while not [key for key in wanted if await store.get(key) is not None]:  # noqa: ASYNC110 - as above
            await asyncio.sleep(_PAUSE_S)


async def history(store: MetadataStore, after: int) -> list[Event]:
    """All that has happened to any key since a revision."""
    end = f"{_END}/{next(_ends)}"
    last = await store.put(end, b"")
    found: list[Event] = []
    async with aclosing(store.watch("/", after)) as changes:
        async for events in changes:
            found += events
            if events[-1].revision >= last:
                break
    return [event for event in found if not event.key.startswith(_END)]


@dataclass(frozen=True, slots=True)
class Durable:
    """What failover must not change, as it was at one revision."""

    revision: int
    entries: tuple[tuple[str, bytes], ...]

    @classmethod
    async def of(cls, store: MetadataStore) -> "Durable":
        """As it is now."""
        listings = [await store.list(prefix) for prefix in keys.DURABLE]
        entries = ((entry.key, entry.value) for listing in listings for entry in listing.entries)
        return cls(min(listing.revision for listing in listings), tuple(entries))

    async def assert_untouched(self, store: MetadataStore) -> None:
        """It is byte for byte as it was, and was so at every revision in between."""
        changed = [
            (event.key, event.revision)
            for event in await history(store, self.revision)
            if event.key.startswith(keys.DURABLE)
        ]
        assert not changed
        assert (await Durable.of(store)).entries == self.entries


def moves(events: Sequence[Event], topic: str) -> list[str]:
    """What happened to a topic's ownership, change by change: `-1 +unassigned`, `-unassigned +2`."""
    told: dict[int, list[str]] = defaultdict(list)
    for event in events:
        match keys.parse(event.key):
            case keys.Assignment(broker, of) if of == topic:
                told[event.revision].append(f"{_sign(event)}{broker}")
            case keys.Unassigned(of) if of == topic:
                told[event.revision].append(f"{_sign(event)}unassigned")
    return [" ".join(sorted(at_once, reverse=True)) for _, at_once in sorted(told.items())]


def _sign(event: Event) -> str:
    return "+" if event.entry is not None else "-"
