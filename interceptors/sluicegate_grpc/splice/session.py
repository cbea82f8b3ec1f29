"""One gRPC client connection: two directions of HTTP/2 frames, and who looks at them."""

from collections.abc import Sequence

from sluicegate.broker import PASS, Close, Command
from sluicegate_grpc.splice.shared import Address, Shared


class GrpcSession:
    """One client connection and its upstream connection, without their sockets (`broker.DiallingSession`).

    :param shared: the front's state.
    :param peer: the client's address, `host:port`.
    :param addresses: brokers to connect to, tried in turn; empty if the relay has connected already, as it
        does for a listener with an `upstream`.
    :param routes: True if the first request may name the broker (`MethodMap.route_header`): nothing is
        dialled before it has come.
    """

    def __init__(
        self, shared: Shared, peer: str, addresses: tuple[Address, ...] = (), *, routes: bool = False
    ) -> None:
        self._shared = shared
        self._peer = peer
        shared.sessions += 1

    @property
    def held_bytes(self) -> int:
        """Bytes kept for this connection."""
        return 0

    @property
    def mid_frame(self) -> bool:
        """True while a frame has arrived only in part."""
        return False

    @property
    def client(self) -> str:
        """The peer's address."""
        return self._peer

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the client."""
        return PASS

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the broker."""
        return PASS

    def dialled(self, now_ns: int) -> Sequence[Command]:
        """The broker is connected."""
        return ()

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """Something that waits may be due."""
        return [Close("client_gone")] if client_gone else ()

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """What the front was asked is known."""
        return ()

    def closed(self, now_ns: int) -> None:
        """The connection is gone."""
        self._shared.sessions -= 1
