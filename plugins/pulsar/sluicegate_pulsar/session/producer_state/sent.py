"""A SEND, and what is known of it beyond its command."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from sluicegate.model import Message
from sluicegate_pulsar.codec.metadata import MetadataHead
from sluicegate_pulsar.codec.sends import SendHead, read_send


class Sent(NamedTuple):
    """A SEND in the buffer that it was read from; its fields are the arguments of what reads more of it."""

    data: bytes
    start: int
    stop: int
    head: SendHead

    @classmethod
    def whole(cls, frame: bytes) -> "Sent":
        """A frame that has a buffer of its own."""
        return cls(frame, 0, len(frame), read_send(frame, 0, len(frame)))

    def copy(self) -> bytes:
        """The frame apart from its buffer."""
        return self.data[self.start : self.stop]


sent_of = partial(tuple.__new__, Sent)  # half the time of a call with so many arguments


class Examined(NamedTuple):
    """What is known of a SEND beyond its command."""

    metadata: MetadataHead | None = None
    """None if it was not read, or damaged in transit."""
    largest: int | None = None
    """Bytes of the largest message, if the batch was walked."""
    contents: Sequence[Message] = ()
    """The messages as checks read them; empty if none does."""
    unreadable: str = ""
    """Why checks cannot read them."""
    deliver_at: int = 0
    """When a header of the messages wants them delivered, ms of the wall clock; 0 if none does."""


examined_of = partial(tuple.__new__, Examined)
NOT_EXAMINED = Examined()


class Changed(NamedTuple):
    """A SEND whose properties were changed, if that was decided."""

    sent: Sent
    examined: Examined
    refusal: str = ""
    """Why they cannot be changed; empty if they are."""
    is_damaged: bool = False
    """True if the frame was damaged in transit, which a change would hide."""
