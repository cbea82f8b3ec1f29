"""State of one connection that its handlers share, and their pending work."""

from collections.abc import Hashable, Iterator

from sluicegate.broker import NextTurn
from sluicegate.model import ANONYMOUS
from sluicegate.sessions.questions import Questions
from sluicegate.sessions.timers import Timers
from sluicegate.sessions.work import Resume, Until, Waits
from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.floods import Flood
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream
from sluicegate_grpc.proxy.splice.life import Life
from sluicegate_grpc.proxy.splice.requests import Claim
from sluicegate_grpc.proxy.splice.settings import PeerSettings, for_brokers, for_clients, greeting
from sluicegate_grpc.proxy.splice.shared import Shared
from sluicegate_grpc.proxy.splice.streams import Streams
from sluicegate_grpc.semantics.calls import Caller

_MAX_CALLERS = 1_000
_LEFT_PER_SLICE = 100
"""Producers and consumers that a connection leaves in one slice once it is gone, some 10 us each."""


class Callers:
    """Who calls on one client connection.

    :param shared: the front's state.
    :param peer: the client's address, `host:port`.
    """

    __slots__ = ("_by_principal", "_peer", "_shared", "anonymous", "gates", "policy_changes")

    def __init__(self, shared: Shared, peer: str) -> None:
        self._shared = shared
        self._peer = peer
        self.gates = shared.services.gates
        self.policy_changes = self.gates.changes
        """The number of policy changes that were applied here."""
        self._by_principal: dict[str, Caller] = {}
        self.anonymous = self._new(ANONYMOUS)
        """Who makes the requests without credentials."""

    def of(self, claim: Claim) -> Caller:
        """The caller of a request; its name counts once the broker has accepted the same credentials."""
        if claim.credentials not in self._shared.accepted:
            return self.anonymous
        return self._by_principal.get(claim.principal) or self._new(claim.principal)

    def _new(self, principal: str) -> Caller:
        if len(self._by_principal) >= _MAX_CALLERS:  # a client that makes up names must not fill the memory
            return self.anonymous
        exempt = principal in self._shared.services.policies.exempt_principals
        caller = self._by_principal[principal] = Caller(principal, self._peer, exempt)
        return caller

    def follow_policies(self) -> None:
        """Apply the current policies, which have changed."""
        self.policy_changes = self.gates.changes
        exempt = self._shared.services.policies.exempt_principals
        for caller in self._by_principal.values():
            caller.exempt = caller.principal in exempt

    def parting(self, now_ns: int) -> Iterator[None]:
        """The connection is closed: release what only it used, in slices."""
        callers = tuple(self._by_principal.values())
        self._by_principal.clear()
        for caller in callers:
            while caller.places:
                self._shared.calls.attachments.caller_closed(caller, now_ns, _LEFT_PER_SLICE)
                if caller.places:
                    yield


class Connection:
    """One client connection and its two directions.

    :param shared: the front's state.
    :param peer: the client's address, `host:port`.
    """

    __slots__ = (
        "broker_settings",
        "callers",
        "client_settings",
        "down",
        "life",
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
        self.up.join(self.down)
        self.streams = Streams(budget, shared.limits.max_streams)
        """Requests whose responses have not ended."""
        self.questions: Questions[Resume] = Questions()
        """Questions for the front."""
        self.timers = Timers()
        """Scheduled calls."""
        self.life = Life()
        self.callers = Callers(shared, peer)
        limits = shared.limits
        flood = Flood(GrpcClose.SETTINGS_FLOOD, limits.settings)
        self.client_settings = PeerSettings(self.up, for_brokers(limits), flood)
        """From the client to the broker."""
        flood = Flood(GrpcClose.SETTINGS_FLOOD, limits.settings)
        self.broker_settings = PeerSettings(self.down, for_clients(limits), flood)
        """From the broker to the client."""
        self.client_settings.join(self.broker_settings)

    def greeting(self) -> bytes:
        """What precedes the first frame to the client: SETTINGS, unless the broker's have come.

        Otherwise the broker's follow, and only their acknowledgement is forwarded to the broker.
        """
        has_come = self.broker_settings.have_come
        self.client_settings.greet(discards_ack=not has_come)
        return b"" if has_come else greeting(self.shared.limits)

    # -- what is to come ------------------------------------------------------------------------------

    def wait(self, waits: Waits, resume: Resume) -> None:
        """Have work go on: the one way in which anything on this connection waits."""
        if isinstance(waits, Until):
            self.timers.at(waits.at_ns, lambda now_ns: resume(now_ns, None))
        else:
            self.questions.ask(NextTurn() if waits is None else waits.question, resume)

    def answered(self, question: Hashable, answer: object, now_ns: int) -> None:
        """Resume what has asked the front; it gets None if the front could not answer."""
        # What has asked goes by what is known already: a front that fails must not end connections.
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
        yield from self.callers.parting(now_ns)
