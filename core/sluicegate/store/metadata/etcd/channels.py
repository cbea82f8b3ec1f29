"""gRPC channels to the members of an etcd cluster, with logins, timeouts and failover."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio
from grpc.aio import AioRpcError

from sluicegate.store.metadata.etcd import sluicegate_etcd_pb2 as pb
from sluicegate.store.metadata.etcd.address import EtcdAddress
from sluicegate.store.metadata.etcd.etcd_errors import (
    explain,
    is_stale_login,
    is_unavailable,
    is_unreachable,
    may_have_taken_effect,
)
from sluicegate.store.policy_store import StoreError

_LARGEST_ANSWER = 64 * 2**20
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", _LARGEST_ANSWER),
    # By default gRPC's reconnect backoff grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Detects members that vanish silently; etcd allows a ping every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
)
Metadata = tuple[tuple[str, str], ...]
_LEADER = (("hasleader", "true"),)
"""Makes a member without a leader refuse requests at once and end watches, instead of hanging."""


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's name


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Method:
    """One method of etcd's API."""

    path: str
    response: Any
    """Message type of its responses."""
    writes: bool = False
    """True if it must not be retried after it may have taken effect."""


RANGE = Method("/etcdserverpb.KV/Range", pb.RangeResponse)
PUT = Method("/etcdserverpb.KV/Put", pb.PutResponse, writes=True)
DELETE = Method("/etcdserverpb.KV/DeleteRange", pb.DeleteRangeResponse, writes=True)
TXN = Method("/etcdserverpb.KV/Txn", pb.TxnResponse, writes=True)
GRANT = Method("/etcdserverpb.Lease/LeaseGrant", pb.LeaseGrantResponse)
REVOKE = Method("/etcdserverpb.Lease/LeaseRevoke", pb.LeaseRevokeResponse)
KEEP_ALIVE = Method("/etcdserverpb.Lease/LeaseKeepAlive", pb.LeaseKeepAliveResponse)
WATCH = Method("/etcdserverpb.Watch/Watch", pb.WatchResponse)
_AUTHENTICATE = Method("/etcdserverpb.Auth/Authenticate", pb.AuthenticateResponse)


async def first_response(call: Any, request: _Message) -> Any:
    """Send a request on a streaming call and read the first response.

    :raises AioRpcError: if the call fails.
    :raises EOFError: if it ends without a response.
    """
    with suppress(asyncio.InvalidStateError):  # it has already failed: reading raises the cause
        await call.write(request)
    response = await call.read()
    if response is grpc.aio.EOF:
        raise EOFError
    return response


class Connection:
    """Calls to any member that responds. Belongs to one event loop.

    :param address: the members, and how to connect to them.
    """

    def __init__(self, address: EtcdAddress) -> None:
        self.address = address
        self._closed = False
        self._channels: dict[str, grpc.aio.Channel] = {}
        self.member = 0
        """Index of the member that is asked now."""
        self._token: str | None = None
        self._logged_in = address.user is None

    async def call(self, method: Method, request: _Message) -> Any:
        """Call a unary method.

        :return: its response.
        :raises StoreError: if no member responds in time, or etcd refuses.
        """

        async def ask(channel: grpc.aio.Channel, timeout_s: float) -> Any:
            return await self._unary(channel, method, request, timeout_s, self._metadata())

        return await self._attempt(ask, writes=method.writes)

    async def first(self, method: Method, request: _Message) -> Any:
        """The first response of a streaming method; raises as `call` does."""

        async def ask(channel: grpc.aio.Channel, timeout_s: float) -> Any:
            call = self._streamed(channel, method, timeout_s)
            try:
                return await first_response(call, request)
            finally:
                call.cancel()

        return await self._attempt(ask, writes=method.writes)

    def stream(self, method: Method) -> Any:
        """A bidirectional streaming call to the current member, without a timeout."""
        return self._streamed(self._channel(), method, None)

    async def log_in(self) -> None:
        """Log in if the URL has a user and there is no token yet.

        :raises AioRpcError: if etcd refuses or does not respond.
        """
        if not self._logged_in:
            await self._authenticate(self._channel(), self.address.timeout_s)

    def forget_login(self) -> None:
        """Make the next call log in again."""
        self._token, self._logged_in = None, self.address.user is None

    def leave_member(self, failed: int) -> None:
        """Switch to the next member after one has failed, unless another call already has.

        :param failed: index of the member.
        """
        if self.member == failed:
            self.member = (failed + 1) % len(self.address.members)

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def close(self) -> None:
        """Close all channels and cancel pending calls."""
        self._closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    async def _attempt(
        self, ask: Callable[[grpc.aio.Channel, float], Awaitable[Result]], *, writes: bool
    ) -> Result:
        """Try one member after the other; each gets its share of the remaining time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.address.timeout_s
        left = len(self.address.members)
        fresh_login = False
        response: AioRpcError | None = (
            None  # of a reachable member: more informative than a failed connection
        )
        while True:
            timeout_s = max(0.001, (deadline - loop.time()) / left)
            member = self.member
            try:
                channel = self._channel()
                if not self._logged_in:
                    fresh_login = True
                    await self._authenticate(channel, timeout_s)
                return await ask(channel, timeout_s)
            except AioRpcError as error:
                # Once: a login that is refused at once would be repeated for ever.
                if is_stale_login(error) and self.address.user is not None and not fresh_login:
                    self.forget_login()
                    continue
                left -= 1
                if is_unavailable(error):
                    self.leave_member(member)
                if not is_unreachable(error):
                    response = error
                # A write that may have happened must not go to another member, too.
                if not left or not is_unavailable(error) or (writes and may_have_taken_effect(error)):
                    raise explain(response or error, self.address, written=writes) from error
            except grpc.aio.UsageError as error:
                raise self._closed_error() from error
            except EOFError as error:
                raise StoreError(f"etcd at {self.address} ended a call early", "try again") from error

    async def _authenticate(self, channel: grpc.aio.Channel, timeout_s: float) -> None:
        request = pb.AuthenticateRequest(name=self.address.user or "", password=self.address.secret())
        try:
            response = await self._unary(channel, _AUTHENTICATE, request, timeout_s, _LEADER)
            self._token = response.token
        except AioRpcError as error:
            if "authentication is not enabled" not in (error.details() or ""):
                raise
            self._token = None
        self._logged_in = True

    @staticmethod
    async def _unary(
        channel: grpc.aio.Channel, method: Method, request: _Message, timeout_s: float, metadata: Metadata
    ) -> Any:
        call: Any = channel.unary_unary(
            method.path,
            request_serializer=type(request).SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return await call(request, timeout=timeout_s, metadata=metadata)

    def _streamed(self, channel: grpc.aio.Channel, method: Method, timeout_s: float | None) -> Any:
        call: Any = channel.stream_stream(
            method.path,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=method.response.FromString,
        )
        return call(timeout=timeout_s, metadata=self._metadata())

    def _metadata(self) -> Metadata:
        return _LEADER if self._token is None else (*_LEADER, ("token", self._token))

    def _channel(self) -> grpc.aio.Channel:
        if self._closed:
            raise self._closed_error()
        member = self.address.members[self.member]
        channel = self._channels.get(member)
        if channel is None:
            channel = self._channels[member] = self._open(member)
        return channel

    def _open(self, member: str) -> grpc.aio.Channel:
        if not self.address.tls:
            return grpc.aio.insecure_channel(member, options=_OPTIONS)
        ca, key, cert = self.address.pem()
        return grpc.aio.secure_channel(member, grpc.ssl_channel_credentials(ca, key, cert), options=_OPTIONS)

    def _closed_error(self) -> StoreError:
        return StoreError(f"the connection to etcd at {self.address} was closed", "open it again")
