"""What handlers of frames are, and what they return."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from sluicegate.broker import PASS, Command
from sluicegate_pulsar.codec import pulsar_pb2 as pb

__all__ = ["PASS", "TAKEN", "Handled", "Handler", "OnResponse"]

Handled: TypeAlias = Sequence[Command]
"""The commands that take the place of a frame, in either direction; `PASS` itself if it passes unchanged."""
TAKEN: Final[Handled] = ()
"""Nothing takes its place now: it is kept, or dropped, or what it leads to was sent already."""

Handler: TypeAlias = Callable[[bytes, int, int, int], Handled]
"""`(buffer, start, stop, now_ns)` of one whole frame, its total size included."""
OnResponse: TypeAlias = Callable[[pb.BaseCommand, int], Handled]
"""`(response, now_ns)` of a response that was awaited."""
