"""Resumes producers that the broker does not know because their topic has a new owner.

The broker has rejected such a message. The gateway recreates the producer at the new owner, then has
the client send the message again (UNAVAILABLE, which clients retry), and replaces the old id with
the new one in later messages. It buffers no message, so it can neither lose nor repeat one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sluicegate_grpc.proxy.splice.blocks import trailers, value_alone
from sluicegate_grpc.proxy.splice.frames import header_frames
from sluicegate_grpc.semantics.calls import Id
from sluicegate_grpc.semantics.status import NOT_FOUND, UNAVAILABLE, Refusal

if TYPE_CHECKING:
    from sluicegate.model import Method
    from sluicegate.model.methods import Path
    from sluicegate_grpc.proxy.splice.answers import Watcher
    from sluicegate_grpc.proxy.splice.connection_state import Connection
    from sluicegate_grpc.proxy.splice.requests import Request

_LOOK_NS = 20_000_000
"""How often a call looks whether its producer was created."""
_MAX_ALIASES = 100_000
_MAX_PASSING, _MAX_PASSING_BYTES = 64, 256
_AGAIN = "The topic has another owner. The producer was created there. Send the message again."


@dataclass(slots=True, eq=False)
class Resumption:
    """A producer that is recreated."""

    done: bool = False
    created: int = 0
    """Its new id; 0 if it was not created."""
    refusal: Refusal | None = None
    """What clients are told then; None: what the broker has said."""


class Resumer(Protocol):
    """Recreates producers."""

    def begin(self, producer: int, topic: str, name: str, authorization: str) -> Resumption:
        """Start to create a producer at its topic's owner; the result is done at once if that is impossible.

        :param producer: the id by which its client knows it.
        :param authorization: of the client; empty if it sends none.
        """

    def renamed(self, message: bytes, path: "Path", producer: int) -> bytes:
        """A message with another id at a path.

        :raises ValueError: if it cannot be read.
        """


class Aliases(dict[Id, int]):
    """New ids of recreated producers, by the ids that their clients have.

    :param resumer: creates them.
    """

    def __init__(self, resumer: Resumer) -> None:
        super().__init__()
        self.resumer = resumer
        self.resumed = 0
        """Producers that were recreated."""
        self._passing: set[bytes] = set()

    def add(self, producer: int, created: int) -> None:
        """Add the new id of a producer; the oldest of too many is dropped."""
        self.resumed += 1
        self.pop(producer, None)
        if created != producer:
            self[producer] = created
        if len(self) > _MAX_ALIASES:
            del self[next(iter(self))]

    def passes(self, block: bytes, limit: int) -> bool:
        """Whether trailers report anything but an unknown producer."""
        # Nearly all are the same few bytes, and parsing them would cost more than all the rest.
        if block in self._passing:
            return True
        status = value_alone(block, "grpc-status", limit)
        if status == "0" and len(self._passing) < _MAX_PASSING and len(block) <= _MAX_PASSING_BYTES:
            self._passing.add(block)
        return status != str(NOT_FOUND)

    def path(self, method: "Method", producer: Id, attachment: Id) -> "tuple[Path, int] | None":
        """The path of an outdated id in a message, and the id that replaces it."""
        if method.producer and (created := self.get(producer)):
            return method.producer, created
        if method.attachment and (created := self.get(attachment)):
            return method.attachment, created
        return None


class Resumable:
    """The response to a publish, which passes unless the broker does not know the producer.

    :param answer: another handler of it, if any.
    :param watchers: of the connection's streams, by stream.
    """

    __slots__ = (
        "_aliases",
        "_answer",
        "_cancelled",
        "_connection",
        "_has_head",
        "_producer",
        "_request",
        "_resumption",
        "_stream",
        "_trailers",
        "_watchers",
    )

    def __init__(
        self,
        connection: "Connection",
        stream: int,
        request: "Request",
        producer: int,
        aliases: Aliases,
        answer: "Watcher | None",
        watchers: "dict[int, Watcher]",
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._request = request
        self._producer = producer
        self._aliases = aliases
        self._answer = answer
        self._watchers = watchers
        self._has_head = self._cancelled = False
        self._trailers = b""
        self._resumption = Resumption()

    def data(self, data: bytes, at: int, stop: int, flags: int, now_ns: int) -> None:
        """Let the frame pass."""
        if self._answer is not None:
            self._answer.data(data, at, stop, flags, now_ns)
        else:
            self._connection.down.through(data, at, stop, flags, self._stream)

    def head(self, block: bytes) -> None:
        """The response's headers."""
        self._has_head = True
        if self._answer is not None:
            self._answer.head(block)

    def trailers(self, block: bytes, frames: bytes, now_ns: int) -> bool:
        """The broker's status; it is withheld while the producer is recreated."""
        limit = self._connection.shared.limits.header_list_bytes
        is_unknown = not self._aliases.passes(block, limit)
        key = self._connection.shared.calls.owners.producer(self._producer) if is_unknown else None
        if key is None:
            return self._answer is None or self._answer.trailers(block, frames, now_ns)
        self._trailers = frames
        words = self._request.authorization
        self._resumption = self._aliases.resumer.begin(self._producer, key[0], key[2], words)
        self._watchers[self._stream] = self  # a cancellation by the client is still handled
        self._connection.at(now_ns, self._look)
        return False

    def ended(self, now_ns: int, *, by_client: bool) -> None:
        """The stream was reset."""
        self._cancelled = True
        if self._trailers:
            self._connection.shared.calls.publish_answered(self._producer, now_ns, is_known=False)
        elif self._answer is not None:
            self._answer.ended(now_ns, by_client=by_client)

    def _look(self, now_ns: int) -> None:
        if self._cancelled:
            return
        found = self._resumption
        if not found.done:
            self._connection.at(now_ns + _LOOK_NS, self._look)
            return
        self._watchers.pop(self._stream, None)
        refusal = found.refusal
        if found.created:
            self._aliases.add(self._producer, found.created)
            self._connection.shared.calls.owners.renamed(self._producer, found.created)
            refusal = Refusal(UNAVAILABLE, _AGAIN, b"")
        self._connection.shared.calls.publish_answered(self._producer, now_ns, is_known=bool(found.created))
        down, end = self._connection.down, self._trailers
        if refusal is not None:
            block = trailers(refusal.code, refusal.text, refusal.details, alone=not self._has_head)
            end = header_frames(self._stream, block, end=True)
        down.over(self._stream)
        down.insert(end)
