"""A local copy of the store below a prefix, kept current by a watch."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from sluicegate.store.metadata import Event, Listing, MetadataStore, follow
from sluicegate.store.policy_store import StoreError

log = logging.getLogger("sluicegate.danube.reference")


@dataclass(eq=False)
class PrefixCache:
    """Entries of the metadata store below one prefix, kept current by a watch.

    It is empty until `run` has received the first listing, which sets `listed`.

    """

    store: MetadataStore
    prefix: str
    on_change: Callable[[str, bytes | None], None] = lambda key, value: None
    """Called with each key that changed and its value, None if it is gone."""
    entries: dict[str, bytes] = field(default_factory=dict)
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the first listing is there."""
    _revision: int = 0
    """Of what was taken over last: a watch that is behind a listing tells nothing new."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Follow the store until it is closed, or this is cancelled."""
        async with aclosing(follow(self.store, self.prefix, self._failed)) as news:
            async for each in news:
                self.take(each)

    async def refresh(self) -> None:
        """List again, for decisions that must not rely on a watch that may lag.

        :raises StoreError: if the store cannot be reached.
        """
        listing = await self.store.list(self.prefix)
        if listing.replaces(self._revision):
            self.take(listing)

    def take(self, news: Listing | Sequence[Event]) -> None:
        """Apply changes, or a listing that replaces the whole copy."""
        if isinstance(news, Listing):
            fresh = {entry.key: entry.value for entry in news.entries}
            for key in self.entries.keys() - fresh.keys():
                self._set(key, None)
            for key, value in fresh.items():
                self._set(key, value)
            self._revision = news.revision
            self.listed.set()
        else:
            for event in news:
                if event.revision > self._revision:
                    self._set(event.key, event.entry.value if event.entry is not None else None)
            if news:
                self._revision = max(self._revision, news[-1].revision)
        self._changed.set()
        self._changed = asyncio.Event()

    async def has(self, keys: Iterable[str], within_s: float) -> bool:
        """Wait until the copy has all of some keys.

        :param within_s: how long at most.
        :return: whether they are.
        """
        wanted = tuple(keys)
        try:
            async with asyncio.timeout(within_s):
                while not all(key in self.entries for key in wanted):
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _set(self, key: str, value: bytes | None) -> None:
        if self.entries.get(key) == value:
            return
        if value is None:
            del self.entries[key]
        else:
            self.entries[key] = value
        self.on_change(key, value)

    def _failed(self, error: StoreError) -> None:
        log.warning("cannot follow %s in the metadata store: %s; what is known stays", self.prefix, error)
