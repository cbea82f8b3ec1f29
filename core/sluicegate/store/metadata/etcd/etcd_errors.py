"""Translates etcd's errors into store errors with remedies."""

import grpc
from grpc.aio import AioRpcError

from sluicegate.store.metadata.etcd.address import EtcdAddress
from sluicegate.store.metadata.metadata_store import CompactedError, LeaseExpiredError
from sluicegate.store.policy_store import StoreError, StoreUnavailableError

_UNREACHABLE = "failed to connect to all addresses"
_UNAVAILABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        # gRPC can report a broken connection with any of these.
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
    }
)
_LISTED = "list again and watch from there"
_MEANINGS: tuple[tuple[str, type[StoreError], str, str], ...] = (
    ("CERTIFICATE_VERIFY_FAILED", StoreError, "is not trusted", "give its authority: etcds://…?ca=FILE"),
    ("WRONG_VERSION_NUMBER", StoreError, "does not use TLS", "write etcd:// in the URL"),
    (
        "Handshake read failed",
        StoreError,
        "does not use TLS or aborts the handshake",
        "try etcd://, or give cert and key",
    ),
    ("TSI_DATA_CORRUPTED", StoreError, "refuses this client", "give a certificate that it trusts: cert, key"),
    (
        "Ssl handshake failed",
        StoreError,
        "refuses this client",
        "give a certificate that it trusts: cert, key",
    ),
    (
        _UNREACHABLE,
        StoreUnavailableError,
        "cannot be reached",
        "start it; check host, port and whether it requires etcds://",
    ),
    ("no leader", StoreUnavailableError, "has no quorum", "restart members until a majority is up"),
    ("leader changed", StoreUnavailableError, "is electing a new leader", "try again"),
    (
        "request timed out",
        StoreUnavailableError,
        "is slow or has no quorum",
        "check its members, disks and load",
    ),
    ("has been compacted", CompactedError, "has compacted these changes", _LISTED),
    (
        "lease not found",
        LeaseExpiredError,
        "has no such lease",
        "it expired or was revoked: create a new one",
    ),
    ("authentication failed", StoreError, "rejects user or password", "correct them in the URL"),
    ("user name is empty", StoreError, "requires a login", "write etcd://user:password@host"),
    ("permission denied", StoreError, "denies the user these keys", "grant it read and write for the prefix"),
    ("space exceeded", StoreError, "is full", "compact and defragment it, then disarm its alarm"),
    ("request is too large", StoreError, "does not accept a value of this size", "keep it below 1.5 MiB"),
)
"""Substring of etcd's or gRPC's text, error class, meaning and remedy; the first match counts."""
_STALE_LOGIN = ("invalid auth token", "user name is empty", "revision of auth store is old")


def explain(error: AioRpcError, address: EtcdAddress, *, written: bool = False) -> StoreError:
    """Translate the error of a failed call.

    :param written: whether the call was a write, which may have taken effect.
    """
    text = (error.details() or error.code().name).removeprefix("etcdserver: ")
    unsure = "; the change may have taken effect" if written and may_have_taken_effect(error) else ""
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        message = f"etcd at {address} did not respond within {address.timeout_s:g} s{unsure}"
        return StoreUnavailableError(
            message, "check its load, its network and that a majority of its members is up"
        )
    for part, kind, meaning, remedy in _MEANINGS:
        if part in text:
            return kind(f"etcd at {address} {meaning} ({text}){unsure}", remedy)
    kind = StoreUnavailableError if is_unavailable(error) else StoreError
    return kind(f"etcd at {address} failed ({text}){unsure}", "see its log")


def is_unavailable(error: AioRpcError) -> bool:
    """Whether another member may be able to handle the call."""
    return error.code() in _UNAVAILABLE


def is_unreachable(error: AioRpcError) -> bool:
    """Whether the connection failed, so that no request was sent."""
    return _UNREACHABLE in (error.details() or "")


def may_have_taken_effect(error: AioRpcError) -> bool:
    """Whether the call may have taken effect despite the error."""
    return is_unavailable(error) and not is_unreachable(error)


def is_stale_login(error: AioRpcError) -> bool:
    """Whether a new login suffices: etcd refused the call before executing it."""
    return any(part in (error.details() or "") for part in _STALE_LOGIN)
