"""The response to a publish whose producer can be resumed."""

from sluicegate_grpc.proxy.splice.blocks import ending
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.request import Request
from sluicegate_grpc.proxy.splice.resuming import Aliases, Resumption
from sluicegate_grpc.proxy.splice.watcher import Watcher
from sluicegate_grpc.semantics.status import UNAVAILABLE, Refusal

_LOOK_NS = 20_000_000
"""How often a call looks whether its producer was created."""
_AGAIN = "The topic has another owner. The producer was created there. Send the message again."


class Resumable(Watcher):
    """The response to a publish, which passes unless the broker does not know the producer.

    :param answer: another handler of it, if any.
    :param watchers: of the connection's streams, by stream.
    """

    __slots__ = (
        "_aliases",
        "_answer",
        "_cancelled",
        "_producer",
        "_request",
        "_resumption",
        "_trailers",
        "_watchers",
    )

    def __init__(
        self,
        connection: Connection,
        stream: int,
        request: Request,
        producer: int,
        aliases: Aliases,
        answer: Watcher | None,
        watchers: dict[int, Watcher],
    ) -> None:
        super().__init__(connection, stream)
        self._request = request
        self._producer = producer
        self._aliases = aliases
        self._answer = answer
        self._watchers = watchers
        self._cancelled = False
        self._trailers = b""
        self._resumption = Resumption()

    def data(self, data: bytes, at: int, stop: int, flags: int, now_ns: int) -> None:
        """Let the frame pass."""
        if self._answer is not None:
            self._answer.data(data, at, stop, flags, now_ns)
        else:
            self._down.through(data, at, stop, flags, self._stream)

    def head(self, block: bytes) -> None:
        """The response's headers."""
        super().head(block)
        if self._answer is not None:
            self._answer.head(block)

    def trailers(self, block: bytes, frames: bytes, now_ns: int) -> bool:
        """The broker's status; it is withheld while the producer is recreated."""
        is_unknown = not self._aliases.passes(block, self._shared.limits.header_list_bytes)
        key = self._shared.calls.attachments.owners.producer(self._producer) if is_unknown else None
        if key is None:
            return self._answer is None or self._answer.trailers(block, frames, now_ns)
        self._trailers = frames
        words = self._request.authorization
        self._resumption = self._aliases.resumer.begin(self._producer, key[0], key[2], words)
        self._watchers[self._stream] = self  # a cancellation by the client is still handled
        self._connection.timers.at(now_ns, self._look)
        return False

    def ended(self, now_ns: int, *, by_client: bool) -> None:
        """The stream was reset."""
        self._cancelled = True
        if self._trailers:
            self._shared.calls.attachments.claim_answered(self._producer, now_ns, is_known=False)
        elif self._answer is not None:
            self._answer.ended(now_ns, by_client=by_client)

    def _look(self, now_ns: int) -> None:
        if self._cancelled:
            return
        found = self._resumption
        if not found.done:
            self._connection.timers.at(now_ns + _LOOK_NS, self._look)
            return
        self._watchers.pop(self._stream, None)
        refusal = found.refusal
        if found.created:
            self._aliases.add(self._producer, found.created)
            self._shared.calls.attachments.owners.renamed(self._producer, found.created)
            refusal = Refusal(UNAVAILABLE, _AGAIN)
        self._shared.calls.attachments.claim_answered(self._producer, now_ns, is_known=bool(found.created))
        end = self._trailers
        if refusal is not None:
            end = ending(self._stream, refusal, alone=not self._block)
        self._down.over(self._stream)
        self._down.insert(end)
