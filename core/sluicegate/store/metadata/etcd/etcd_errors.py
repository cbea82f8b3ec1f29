"""What etcd's errors mean, in words, and what to do about them."""

import grpc
from grpc.aio import AioRpcError

from sluicegate.store.metadata.etcd.address import EtcdAddress
from sluicegate.store.metadata.metadata_store import CompactedError, LeaseExpiredError
from sluicegate.store.policy_store import StoreAwayError, StoreError

_UNREACHED = "failed to connect to all addresses"
_AWAY = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        # What gRPC makes of a connection that breaks at an unlucky moment.
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
_LISTED = "list again and watch from there"
_MEANINGS: tuple[tuple[str, type[StoreError], str, str], ...] = (
    ("CERTIFICATE_VERIFY_FAILED", StoreError, "is not trusted", "name its authority: etcds://…?ca=FILE"),
    ("WRONG_VERSION_NUMBER", StoreError, "speaks no TLS", "begin the URL with etcd://"),
    (
        "Handshake read failed",
        StoreError,
        "speaks no TLS or breaks it off",
        "try etcd://, or name cert and key",
    ),
    ("TSI_DATA_CORRUPTED", StoreError, "refuses this client", "name a certificate that it trusts: cert, key"),
    (
        "Ssl handshake failed",
        StoreError,
        "refuses this client",
        "name a certificate that it trusts: cert, key",
    ),
    (
        _UNREACHED,
        StoreAwayError,
        "cannot be reached",
        "start it; check host, port and whether it wants etcds://",
    ),
    ("no leader", StoreAwayError, "has no quorum", "bring a majority of its members back"),
    ("leader changed", StoreAwayError, "changes its leader", "try again"),
    ("request timed out", StoreAwayError, "is slow or has no quorum", "check its members, disks and load"),
    ("has been compacted", CompactedError, "no longer keeps these changes", _LISTED),
    ("lease not found", LeaseExpiredError, "has no such lease", "it expired or was revoked: make a new one"),
    ("authentication failed", StoreError, "refuses user or password", "correct them in the URL"),
    ("user name is empty", StoreError, "asks for a login", "write etcd://user:password@host"),
    ("permission denied", StoreError, "denies the user these keys", "grant it read and write for the prefix"),
    ("space exceeded", StoreError, "is full", "compact and defragment it, then disarm its alarm"),
    ("request is too large", StoreError, "takes no value of this size", "keep it below 1.5 MiB"),
)
"""A part of etcd's or gRPC's text, and what it means; the first that fits."""
_STALE_LOGIN = ("invalid auth token", "user name is empty", "revision of auth store is old")


def explain(error: AioRpcError, address: EtcdAddress, *, written: bool = False) -> StoreError:
    """What a failed call means.

    :param written: the call was to change something, and may have done so.
    """
    text = (error.details() or error.code().name).removeprefix("etcdserver: ")
    unsure = "; the change may have been made" if written and is_unsure(error) else ""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        told = f"etcd at {address} did not answer within {address.timeout_s:g} s{unsure}"
        return StoreAwayError(told, "check its load, its network and that a majority of its members is up")
    for part, kind, meaning, remedy in _MEANINGS:
        if part in text:
            return kind(f"etcd at {address} {meaning} ({text}){unsure}", remedy)
    kind = StoreAwayError if is_away(error) else StoreError
    return kind(f"etcd at {address} failed ({text}){unsure}", "see its log")


def is_away(error: AioRpcError) -> bool:
    """Whether another member may do what this one could not."""
    return error.code() in _AWAY


def is_unreached(error: AioRpcError) -> bool:
    """Whether there was no connection at all, so that nothing was asked."""
    return _UNREACHED in (error.details() or "")


def is_unsure(error: AioRpcError) -> bool:
    """Whether the call may have been carried out nevertheless."""
    return is_away(error) and not is_unreached(error)


def is_stale_login(error: AioRpcError) -> bool:
    """Whether a new token is all that is needed: etcd refused the call before it did anything."""
    return any(part in (error.details() or "") for part in _STALE_LOGIN)
