"""Resumes producers that the broker does not know because their topic has a new owner.

The broker has rejected such a message. The gateway recreates the producer at the new owner, then has
the client send the message again (UNAVAILABLE, which clients retry), and replaces the old id with
the new one in later messages. It buffers no message, so it can neither lose nor repeat one.
"""

from dataclasses import dataclass
from typing import Protocol

from sluicegate.model import Method
from sluicegate.model.methods import Path
from sluicegate_grpc.proxy.splice.blocks import value_alone
from sluicegate_grpc.semantics.calls import Id
from sluicegate_grpc.semantics.status import NOT_FOUND, Refusal

_MAX_ALIASES = 100_000
_MAX_PASSING, _MAX_PASSING_BYTES = 64, 256


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

    def renamed(self, message: bytes, path: Path, producer: int) -> bytes:
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

    def path(self, method: Method, producer: Id, attachment: Id) -> tuple[Path, int] | None:
        """The path of an outdated id in a message, and the id that replaces it."""
        if method.producer and (created := self.get(producer)):
            return method.producer, created
        if method.attachment and (created := self.get(attachment)):
            return method.attachment, created
        return None
