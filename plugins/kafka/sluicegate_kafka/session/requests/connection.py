"""State of one connection that its handlers share, and the bytes that they send."""

from collections.abc import Callable
from typing import TypeAlias

from sluicegate.broker import Ask, Buffer, Command, ToUpstream
from sluicegate.engine.budget import Budget
from sluicegate.model import ANONYMOUS
from sluicegate.sessions.questions import Questions
from sluicegate.sessions.work import Running
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.record_walk import Slice
from sluicegate_kafka.session.requests.pending import Expected, Outstanding
from sluicegate_kafka.session.requests.working import Handle

OnAnswer: TypeAlias = Callable[[int, list[Command]], None]
"""`(now_ns, commands of the session, to which more are appended)`: called when the front has answered."""

Identity: TypeAlias = tuple[str, str, str]
"""Principal, host and client id: the same for all connections of one client."""


INJECTED = -848
"""Correlation id of the gateway's own requests; responses are matched by their order."""
MAX_TOPICS = 10_000
"""Topics in one request."""
TOPIC_BYTES = 6_000
"""About how much memory a place on a topic takes where no other client has one; 2 kB where others have."""
PARTITION_BYTES = 65
"""About how much memory a partition takes that a client is known to fetch, or to be assigned."""
TOPICS_PER_SLICE = 10
"""Topics that are decided before others have their turn. One without a compiled gate costs some 70 us."""


def check_topics(count: int) -> None:
    """Refuse a request that names too many topics.

    :raises ProtocolError: if it does.
    """
    if count > MAX_TOPICS:
        raise ProtocolError(f"{count} topics in one request, expected up to {MAX_TOPICS}")


class Connection:
    """One client connection.

    :param peer: the client's address, `host:port`.
    :param node: name of the listener that it came to.
    :param now_ns: monotonic time.
    :param budget: bytes that all clients may hold together.
    """

    __slots__ = (
        "client_id",
        "exempt",
        "heard_ns",
        "injected",
        "late",
        "node",
        "outstanding",
        "parts",
        "peer",
        "principal",
        "produced_ns",
        "questions",
        "slice",
        "software",
        "unpacked_bytes",
    )

    def __init__(self, peer: str, node: str, now_ns: int, budget: Budget) -> None:
        self.peer = peer
        self.node = node
        """The listener that it came to: each stands for one node, or for bootstrapping."""
        self.heard_ns = now_ns
        """When the client last sent something other than a request like the one before."""
        self.produced_ns: Callable[[], int] = int
        """When it last published something; asked only where its silence matters."""
        self.client_id = ""
        """As its last request says; never a proof of anything."""
        self.principal = ANONYMOUS
        """Set only after the broker accepted it."""
        self.exempt = False
        """Whether the principal skips counts, rates and factors."""
        self.software = ""
        """Name of the client library, as it says itself (KIP-511); empty for old clients."""
        self.outstanding = Outstanding(budget)
        """Responses that are owed to the client."""
        self.parts: list[Buffer] = []
        """What goes upstream in place of the request at hand."""
        self.injected: list[bytes] = []
        """The gateway's own requests, which go upstream between the client's."""
        self.unpacked_bytes = 0
        """Memory that the inspection of a compressed batch takes."""
        self.slice = Slice()
        """The slice that walks over its records are part of, one request after the other."""
        self.questions: Questions[OnAnswer] = Questions()
        """Questions to the front."""
        self.late: set[Running[Buffer]] = set()
        """Work on responses that are sent later."""

    @property
    def client(self) -> str:
        """Client id and peer address, which identify this client in log lines."""
        return f"{self.client_id}@{self.peer}"

    @property
    def identity(self) -> Identity:
        """What a client's connections have in common."""
        return (self.principal, self.peer.rsplit(":", 1)[0], self.client_id)

    def is_silent(self, now_ns: int, longest_ns: int) -> bool:
        """Whether the client has been silent for a time and waits for no response."""
        return not self.outstanding and self.last_ns <= now_ns - longest_ns

    @property
    def last_ns(self) -> int:
        """When the client last sent anything."""
        return max(self.heard_ns, self.produced_ns())

    def inject(self, request: bytes, handle: Handle) -> None:
        """Send a request of the gateway's own upstream, in the client's name and between its requests.

        :param request: a whole request, whose correlation id is `INJECTED`.
        :param handle: gets its response, which the client never sees.
        """
        self.injected.append(request)
        self.outstanding.expect(Expected(INJECTED, handle))

    def asked(self, *, mid_request: bool) -> list[Command]:
        """Take the pending questions to the broker and to the front.

        :param mid_request: True while a part of a client's request is still to go upstream.
        """
        out: list[Command] = []
        if self.injected and not mid_request:
            out.extend(ToUpstream(request) for request in self.injected)
            self.injected.clear()
        if self.questions.new:
            out.extend(map(Ask, self.questions.new))
            self.questions.new.clear()
        return out
