"""What a session returns: commands, which the gateway's relay executes in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sluicegate.model import CloseReason

Buffer: TypeAlias = bytes | bytearray | memoryview


@dataclass(slots=True)
class ToUpstream:
    """Send these bytes to the broker. They must never change afterwards: the transport keeps a view."""

    data: Buffer


@dataclass(slots=True)
class ToClient:
    """Send these bytes to the client. They must never change afterwards."""

    data: Buffer


@dataclass(slots=True)
class PauseReading:
    """Stop reading from the client because of a policy; independent of the transport's back-pressure."""


@dataclass(slots=True)
class ResumeReading:
    """Undo PauseReading."""


@dataclass(slots=True)
class WakeAt:
    """Call `session.wake` at this monotonic time (ns); replaces the previous `WakeAt`."""

    at_ns: int


@dataclass(slots=True)
class Ask:
    """Have the front answer this question, then call `session.answered`; reading pauses until then."""

    question: object


@dataclass(frozen=True, slots=True, eq=False)
class NextTurn:
    """A question that the gateway answers itself, in a later turn of its event loop.

    A session asks it between two slices of work that together would block the loop for too long. Meanwhile
    all other clients are served, and only one session of the gateway runs a slice per turn. Reading from the
    client and from its broker pauses until the answer, which is None; the session buffers what still arrives.
    """


@dataclass(slots=True)
class Close:
    """Send what is queued, then close both sides.

    `counter` is the reason in metrics and logs; None for an end that needs no mention.
    """

    counter: CloseReason | None = None
    detail: str = ""


@dataclass(slots=True)
class Dial:
    """Connect to the first of these brokers that answers, then call `session.dialled`; reading pauses.

    Only for clients of a listener without `upstream`, and only once.
    """

    addresses: tuple[tuple[str, int], ...]
    """Host and port of each."""
    in_order: bool = False
    """Whether to try the first one first each time, the others being replacements
    (`BaseSession.stands_in`). Otherwise the one that answered last is tried first."""


@dataclass(slots=True)
class PassOn:
    """Forward what was just received to the other side, unchanged; only in `PASS`."""


Command: TypeAlias = (
    ToUpstream | ToClient | PauseReading | ResumeReading | WakeAt | Ask | Close | Dial | PassOn
)
PASS: Final[Sequence[Command]] = (PassOn(),)
"""What `receive_client` and `receive_upstream` return if everything received is forwarded and nothing else is
to be done; compared by identity. Nearly every message takes this path, which creates no command."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that clients may connect to."""

    name: str
    """Stable name within the broker, such as `bootstrap` or `node-2`."""
    host: str
    port: int
    upstream: tuple[tuple[str, int], ...]
    """Host and port of the broker behind it; tried in turn, once the client has sent its first bytes.

    If empty, the session chooses the broker by `Dial`, once it has read enough from the client."""
