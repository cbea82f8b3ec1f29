"""State of one connection that its handlers share, and their pending work."""

from collections.abc import Hashable, Iterator

from sluicegate.broker import NextTurn
from sluicegate.model import ANONYMOUS
from sluicegate.sessions.questions import Questions
from sluicegate.sessions.timers import Timers
from sluicegate.sessions.work import Resume, Until, Waits
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream
from sluicegate_grpc.proxy.splice.frames import STREAM_MASK
from sluicegate_grpc.proxy.splice.request import Request
from sluicegate_grpc.proxy.splice.shared import Shared
from sluicegate_grpc.proxy.splice.streams import Streams
from sluicegate_grpc.semantics.calls import Caller

_MAX_CALLERS = 1_000
_LEFT_PER_SLICE = 100
"""Producers and consumers that a connection leaves in one slice once it is gone, some 10 us each."""


class Connection:
    """One client connection and its two directions.

    :param shared: the front's state.
    :param peer: the client's address, `host:port`.
    """

    __slots__ = (
        "_callers",
        "_last",
        "anonymous",
        "down",
        "peer",
        "questions",
        "shared",
        "streams",
        "timers",
        "up",
    )

    def __init__(self, shared: Shared, peer: str) -> None:
        self.shared = shared
        self.peer = peer
        budget = shared.services.budget
        self.up = FrameStream(budget)
        """From the client to the broker."""
        self.down = FrameStream(budget)
        """From the broker to the client."""
        self.up.back, self.down.back = self.down, self.up
        self.streams = Streams(budget, shared.limits.max_streams)
        """Requests whose responses have not ended."""
        self.questions: Questions[Resume] = Questions()
        """Questions for the front."""
        self.timers = Timers()
        """Scheduled calls."""
        self._callers: dict[str, Caller] = {}
        self._last = STREAM_MASK
        """The last stream of the last GOAWAY to the client."""
        self.anonymous = self._new_caller(ANONYMOUS)
        """Who makes the requests without credentials."""

    # -- who calls ------------------------------------------------------------------------------------

    def caller(self, request: Request) -> Caller:
        """The caller of a request; its name counts once the broker has accepted the same credentials."""
        if request.credentials not in self.shared.accepted:
            return self.anonymous
        return self._callers.get(request.principal) or self._new_caller(request.principal)

    def _new_caller(self, principal: str) -> Caller:
        if len(self._callers) >= _MAX_CALLERS:
            return self.anonymous
        exempt = principal in self.shared.services.policies.exempt_principals
        caller = self._callers[principal] = Caller(principal, self.peer, exempt)
        return caller

    def policies_changed(self) -> None:
        """Apply the current policies."""
        exempt = self.shared.services.policies.exempt_principals
        for caller in self._callers.values():
            caller.exempt = caller.principal in exempt

    def last_stream(self, last: int) -> int:
        """The last stream of a GOAWAY to the client: the next names none above it (RFC 9113 section 6.8)."""
        self._last = min(self._last, last)
        return self._last

    # -- what is to come ------------------------------------------------------------------------------

    def wait(self, waits: Waits, resume: Resume) -> None:
        """Have work go on: the one way in which anything on this connection waits."""
        if isinstance(waits, Until):
            self.timers.at(waits.at_ns, lambda now_ns: resume(now_ns, None))
        else:
            self.questions.ask(NextTurn() if waits is None else waits.question, resume)

    def answered(self, question: Hashable, answer: object, now_ns: int) -> None:
        """Resume what has asked the front; it gets None if the front could not answer."""
        known = None if isinstance(answer, Exception) else answer
        for resume in self.questions.answered(question):
            resume(now_ns, known)

    def parting(self, now_ns: int) -> Iterator[None]:
        """The connection is closed: discard what waits, and release what only it used, in slices."""
        self.timers.clear()
        self.questions = Questions()
        self.streams.closed()
        self.up.drop()
        self.down.drop()
        callers = tuple(self._callers.values())
        self._callers.clear()
        for caller in callers:
            while caller.places:
                self.shared.calls.attachments.caller_closed(caller, now_ns, _LEFT_PER_SLICE)
                if caller.places:
                    yield
