"""What is known of one connection, and where its rooms leave what is to be done later."""

from collections.abc import Callable, Iterator

from sluicegate.engine.timers import Timer, Timers
from sluicegate.model import ANONYMOUS
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream
from sluicegate_grpc.proxy.splice.requests import Request
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
        "_questions",
        "down",
        "has_news",
        "new_questions",
        "peer",
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
        self.streams = Streams(budget, shared.limits.streams)
        """Those of requests that the broker has yet to answer to the end."""
        self.has_news = False
        """True if there is something new to wait for."""
        self.new_questions: list[object] = []
        """What the front is to be asked."""
        self._questions: dict[object, list[Callable[[int], None]]] = {}
        self.timers = Timers()
        """What is to be done later."""
        self._callers: dict[str, Caller] = {}

    # -- who calls ------------------------------------------------------------------------------------

    def caller(self, request: Request) -> Caller:
        """Who sends a request: a name counts once the broker has accepted a call with the same words."""
        principal = ANONYMOUS
        if request.credentials and request.credentials in self.shared.accepted:
            principal = request.principal
        return self._callers.get(principal) or self._new_caller(principal)

    def _new_caller(self, principal: str) -> Caller:
        if len(self._callers) >= _MAX_CALLERS:
            principal = ANONYMOUS
            if principal in self._callers:
                return self._callers[principal]
        exempt = principal in self.shared.services.policies.exempt_principals
        caller = self._callers[principal] = Caller(principal, self.peer, exempt)
        return caller

    def policies_changed(self) -> None:
        """Go by the policies of now."""
        exempt = self.shared.services.policies.exempt_principals
        for caller in self._callers.values():
            caller.exempt = caller.principal in exempt

    # -- what is to come ------------------------------------------------------------------------------

    def ask(self, question: object, call: Callable[[int], None]) -> None:
        """Have the front asked; `call` is called with the time once it has answered."""
        waiting = self._questions.get(question)
        if waiting is not None:
            waiting.append(call)
            return
        self.has_news = True
        self._questions[question] = [call]
        self.new_questions.append(question)

    def answered(self, question: object, now_ns: int) -> None:
        """The front has answered."""
        for call in self._questions.pop(question, ()):
            call(now_ns)

    def at(self, at_ns: int, call: Callable[[int], None]) -> Timer:
        """Have something done at a time."""
        self.has_news = True
        return self.timers.at(at_ns, call)

    def parting(self, now_ns: int) -> Iterator[None]:
        """The connection is gone: nothing waits any more, and what only it used is released, in slices."""
        self.timers.clear()
        self._questions.clear()
        self.streams.closed()
        self.up.drop()
        self.down.drop()
        callers = tuple(self._callers.values())
        self._callers.clear()
        for caller in callers:
            while caller.places:
                self.shared.calls.caller_gone(caller, now_ns, _LEFT_PER_SLICE)
                if caller.places:
                    yield
