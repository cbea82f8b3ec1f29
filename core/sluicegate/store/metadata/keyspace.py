"""Keys, revisions, history and leases as a plain object: no input or output, and the time is an argument."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, islice

from sluicegate.store.metadata.metadata_store import (
    NO_LEASE,
    CompactedError,
    Delete,
    Entry,
    Event,
    LeaseExpiredError,
    Listing,
    Put,
    Unchanged,
)

_FIRST_REVISION = 1
"""Of an empty store, as in etcd."""
_SECOND_NS = 1_000_000_000


@dataclass(slots=True)
class _Lease:
    ttl_ns: int
    expires_ns: int
    keys: set[str] = field(default_factory=set)


class KeySpace:
    """The state of one metadata store.

    Leases expire by `expire` only: call it before every other method, with the time.

    :param kept: revisions whose changes are kept for watches; older ones are compacted.
    """

    def __init__(self, kept: int) -> None:
        self.revision = _FIRST_REVISION
        self.listeners: set[Callable[[], None]] = set()
        """Called after every revision."""
        self._entries: dict[str, Entry] = {}
        self._history: deque[tuple[Event, ...]] = deque(maxlen=kept)
        """The changes of each revision, without gaps; the last are of `revision`."""
        self._leases: dict[int, _Lease] = {}
        self._numbers = count(1)

    def get(self, key: str) -> Entry | None:
        """What a key holds."""
        return self._entries.get(key)

    def listing(self, prefix: str) -> Listing:
        """All keys that begin with a prefix."""
        found = sorted(key for key in self._entries if key.startswith(prefix))
        return Listing(self.revision, tuple(self._entries[key] for key in found))

    def holds(self, conditions: Iterable[Unchanged]) -> bool:
        """Whether all conditions of a transaction hold."""
        return all(
            (entry.modified if (entry := self._entries.get(condition.key)) else 0) == condition.modified
            for condition in conditions
        )

    def apply(self, changes: Sequence[Put | Delete]) -> None:
        """Make all changes as one revision; none is made if nothing changes.

        :raises LeaseExpiredError: if a lease is gone; nothing is changed then.
        """
        for change in changes:
            if isinstance(change, Put):
                self._lease(change.lease)
        revision = self.revision + 1
        events: list[Event] = []
        for change in changes:
            if isinstance(change, Put):
                events.append(self._put(change, revision))
            elif self._forget(change.key) is not None:
                events.append(Event(change.key, revision, None))
        self._record(events)

    def since(self, prefix: str, after: int) -> tuple[int, list[tuple[Event, ...]]]:
        """The changes of keys that begin with a prefix.

        :param after: the last revision that is known.
        :return: the revision up to which these are all, and the changes by revision.
        :raises CompactedError: if they are no longer kept.
        """
        first = self.revision - len(self._history) + 1
        if after + 1 < first:
            raise CompactedError(
                f"changes after revision {after} are compacted, the first that is kept is {first}",
                "list again and watch from there",
            )
        batches = islice(self._history, after + 1 - first, None)
        chosen = (tuple(event for event in batch if event.key.startswith(prefix)) for batch in batches)
        return max(after, self.revision), [events for events in chosen if events]

    def compact(self) -> None:
        """Forget all changes up to now."""
        self._history.clear()
        self._tell()

    def grant(self, ttl_s: int, now_ns: int) -> int:
        """Make a lease."""
        number = next(self._numbers)
        ttl_ns = ttl_s * _SECOND_NS
        self._leases[number] = _Lease(ttl_ns, now_ns + ttl_ns)
        return number

    def keep_alive(self, number: int, now_ns: int) -> None:
        """Have a lease live for its whole time from now on.

        :raises LeaseExpiredError: if it is gone.
        """
        if (lease := self._lease(number)) is not None:
            lease.expires_ns = now_ns + lease.ttl_ns

    def revoke(self, number: int) -> None:
        """End a lease and delete its keys as one revision."""
        lease = self._leases.pop(number, None)
        if lease is not None:
            keys = sorted(lease.keys)
            for key in keys:
                del self._entries[key]
            self._record([Event(key, self.revision + 1, None) for key in keys])

    def expire(self, now_ns: int) -> None:
        """End the leases whose time is over, the oldest first."""
        for number in sorted(self._leases, key=lambda number: self._leases[number].expires_ns):
            if self._leases[number].expires_ns > now_ns:
                break
            self.revoke(number)

    @property
    def next_expiry_ns(self) -> int | None:
        """When the next lease expires; None if there is none."""
        return min((lease.expires_ns for lease in self._leases.values()), default=None)

    def _lease(self, number: int) -> _Lease | None:
        if number == NO_LEASE:
            return None
        lease = self._leases.get(number)
        if lease is None:
            raise LeaseExpiredError(
                f"there is no lease {number}", "it expired or was revoked: make a new one"
            )
        return lease

    def _put(self, change: Put, revision: int) -> Event:
        old = self._forget(change.key)
        created = revision if old is None else old.created
        entry = Entry(change.key, change.value, created, revision, change.lease)
        self._entries[change.key] = entry
        if (lease := self._lease(change.lease)) is not None:
            lease.keys.add(change.key)
        return Event(change.key, revision, entry)

    def _forget(self, key: str) -> Entry | None:
        old = self._entries.pop(key, None)
        if old is not None and old.lease in self._leases:
            self._leases[old.lease].keys.discard(key)
        return old

    def _record(self, events: Sequence[Event]) -> None:
        if events:
            self.revision += 1
            self._history.append(tuple(events))
            self._tell()

    def _tell(self) -> None:
        for listener in tuple(self.listeners):
            listener()
