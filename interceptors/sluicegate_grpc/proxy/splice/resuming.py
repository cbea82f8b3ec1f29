"""Resumes producers that the broker does not know because their topic has a new owner.

The broker has rejected such a message. The gateway recreates the producer at the new owner, then has
the client send the message again (UNAVAILABLE, which clients retry), and replaces the old id with
the new one in later messages. It buffers no message, so it can neither lose nor repeat one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from sluicegate.model import Method
from sluicegate.model.methods import Path
from sluicegate_grpc.proxy.splice.blocks import value_alone
from sluicegate_grpc.semantics.calls import Id
from sluicegate_grpc.semantics.status import NOT_FOUND, UNAVAILABLE, Refusal

NO_OWNER = Refusal(UNAVAILABLE, "The topic has no owner yet. Send the message again.")
_MAX_ALIASES = 100_000
_MAX_PASSING, _MAX_PASSING_BYTES = 64, 256


@dataclass(frozen=True, slots=True)
class Resume:
    """The question to the front: create a producer at its topic's owner. The answer is a `Resumed`."""

    producer: int
    """The id by which its client knows it."""
    topic: str
    name: str
    authorization: str = field(repr=False)
    """Of the client; empty if it sends none."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """What has become of a producer."""

    created: int = 0
    """Its new id; 0 if it was not created."""
    refusal: Refusal | None = None
    """What clients are told then; None: what the broker has said."""


class Aliases(dict[Id, int]):
    """New ids of recreated producers, by the ids that their clients have.

    :param rename: `(message, path, id)` -> the message with another id at a path; ValueError if it cannot be
        read.
    """

    def __init__(self, rename: Callable[[bytes, Path, int], bytes]) -> None:
        super().__init__()
        self.rename = rename
        self.resumed = 0
        """Producers that were recreated."""
        self._passing: set[bytes] = set()

    def add(self, producer: int, created: int) -> None:
        """Add the new id of a producer; the oldest of too many is dropped."""
        self.resumed += 1
        self.pop(producer, None)  # so that it becomes the newest
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

    def path(self, method: Method, producer: Id, attachment: Id) -> tuple[Path, int] | None:
        """The path of an outdated id in a message, and the id that replaces it."""
        if method.producer and (created := self.get(producer)):
            return method.producer, created
        if method.attachment and (created := self.get(attachment)):
            return method.attachment, created
        return None
