"""The metadata store in etcd."""

from collections.abc import AsyncGenerator, Sequence

from sluicegate.store.metadata.etcd import channels as api
from sluicegate.store.metadata.etcd import sluicegate_etcd_pb2 as pb
from sluicegate.store.metadata.etcd.address import EtcdAddress
from sluicegate.store.metadata.etcd.watching import Watch
from sluicegate.store.metadata.keys import end_of, key_bytes, key_text
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
    check_transaction,
    check_ttl,
)

_PAGE = 500
"""Keys per response. A listing reads as many pages as it needs, all at one revision."""
_LISTING_ATTEMPTS = 3


class EtcdMetadata:
    """A `MetadataStore` in etcd. It connects with the first call, to any member of the cluster.

    The store does not add the address's prefix to keys.

    :param address: members of the cluster, and how to connect.
    """

    def __init__(self, address: EtcdAddress) -> None:
        self._connection = api.Connection(address)

    async def get(self, key: str) -> Entry | None:
        """Read a key."""
        response = await self._connection.call(api.RANGE, pb.RangeRequest(key=key_bytes(key)))
        return _entry(response.kvs[0]) if response.kvs else None

    async def list(self, prefix: str) -> Listing:
        """List all keys that start with a prefix."""
        for attempt in range(_LISTING_ATTEMPTS):
            try:
                return await self._list(prefix)
            except CompactedError:  # between two pages
                if attempt == _LISTING_ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _list(self, prefix: str) -> Listing:
        key, end = _range(prefix)
        entries: list[Entry] = []
        revision = 0
        while True:
            request = pb.RangeRequest(key=key, range_end=end, limit=_PAGE, revision=revision)
            response = await self._connection.call(api.RANGE, request)
            entries.extend(_entry(pair) for pair in response.kvs)
            revision = revision or response.header.revision
            if not response.more:
                return Listing(revision, tuple(entries))
            key = response.kvs[-1].key + b"\0"

    async def put(self, key: str, value: bytes, lease: int = NO_LEASE) -> int:
        """Set a key."""
        request = pb.PutRequest(key=key_bytes(key), value=value, lease=lease)
        response = await self._connection.call(api.PUT, request)
        return int(response.header.revision)

    async def delete(self, key: str) -> bool:
        """Delete a key."""
        response = await self._connection.call(api.DELETE, pb.DeleteRangeRequest(key=key_bytes(key)))
        return bool(response.deleted)

    async def transact(self, conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        """Apply all changes as one revision if all conditions hold."""
        check_transaction(conditions, changes)
        request = pb.TxnRequest(
            compare=[_compare(condition) for condition in conditions],
            success=[_operation(change) for change in changes],
        )
        response = await self._connection.call(api.TXN, request)
        return bool(response.succeeded)

    async def grant(self, ttl_s: int) -> int:
        """Create a lease."""
        check_ttl(ttl_s)
        response = await self._connection.call(api.GRANT, pb.LeaseGrantRequest(TTL=ttl_s))
        return int(response.ID)

    async def keep_alive(self, lease: int) -> None:
        """Renew a lease for its full duration."""
        response = await self._connection.first(api.KEEP_ALIVE, pb.LeaseKeepAliveRequest(ID=lease))
        if response.TTL <= 0:
            raise LeaseExpiredError(
                f"etcd at {self._connection.address} has no lease {lease}",
                "it expired or was revoked: create a new one",
            )

    async def revoke(self, lease: int) -> None:
        """Revoke a lease and delete its keys."""
        try:
            await self._connection.call(api.REVOKE, pb.LeaseRevokeRequest(ID=lease))
        except LeaseExpiredError:
            return

    def watch(self, prefix: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
        """Yield every change of keys that start with a prefix."""
        return Watch(self._connection, *_range(prefix), after, _entry).batches()

    async def close(self) -> None:
        """Close the connection; watches end."""
        await self._connection.close()


def _range(prefix: str) -> tuple[bytes, bytes]:
    """The range of all keys with a prefix; for etcd, a zero byte as the end means all keys."""
    first = key_bytes(prefix)
    return first or b"\0", end_of(first) or b"\0"


def _entry(pair: pb.KeyValue) -> Entry:
    return Entry(key_text(pair.key), pair.value, pair.create_revision, pair.mod_revision, pair.lease)


def _compare(condition: Unchanged) -> pb.Compare:
    return pb.Compare(
        result=pb.Compare.EQUAL,
        target=pb.Compare.MOD,
        key=key_bytes(condition.key),
        mod_revision=condition.modified,
    )


def _operation(change: Put | Delete) -> pb.RequestOp:
    if isinstance(change, Put):
        put = pb.PutRequest(key=key_bytes(change.key), value=change.value, lease=change.lease)
        return pb.RequestOp(request_put=put)
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key_bytes(change.key)))
