"""What is known of one connection, and where its rooms leave what is to be sent."""

from collections.abc import Callable
from typing import TypeAlias

from sluicegate.broker import Buffer
from sluicegate.model import ANONYMOUS
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.pending import Outstanding
from sluicegate_kafka.suspended import Suspended

Handler: TypeAlias = Callable[[bytes, RequestHead, int], bool | Suspended]
"""`(buffer, head, now_ns)`: True if the request passes as it came, False if its handler has seen to it (and
called `Connection.forward` for what goes upstream in its place), or why it must wait."""

Identity: TypeAlias = tuple[str, str, str]
"""Principal, host and client id: the same for all connections of one client."""


MAX_TOPICS = 10_000
"""Topics in one request. One that is new to the gate costs some 70 us, for which all other clients wait."""


def check_topics(count: int) -> None:
    """Refuse a request that names too many topics.

    :raises ProtocolError: if it does.
    """
    if count > MAX_TOPICS:
        raise ProtocolError(f"{count} topics in one request, expected up to {MAX_TOPICS}")


class Connection:
    """One client connection.

    :param peer: the client's address, `host:port`.
    """

    __slots__ = ("client_id", "exempt", "outstanding", "parts", "peer", "principal", "software")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.client_id = ""
        """As its last request says; never a proof of anything."""
        self.principal = ANONYMOUS
        """Set only after the broker accepted it."""
        self.exempt = False
        """Whether the principal skips counts, rates and factors."""
        self.software = ""
        """Name of the client library, as it says itself (KIP-511); empty for old clients."""
        self.outstanding = Outstanding()
        """Responses that are owed to the client."""
        self.parts: list[Buffer] = []
        """What goes upstream in place of the request at hand."""

    @property
    def client(self) -> str:
        """Client id and peer address: what tells this client from others in a log line."""
        return f"{self.client_id}@{self.peer}"

    @property
    def identity(self) -> Identity:
        """What a client's connections have in common."""
        return (self.principal, self.peer.rsplit(":", 1)[0], self.client_id)

    @property
    def fetcher(self) -> str:
        """The name by which a consumer goes that no group tells of."""
        return "fetch " + "/".join(self.identity)

    def forward(self, *parts: Buffer) -> None:
        """Send parts of the request at hand upstream, after what was forwarded before it."""
        self.parts.extend(parts)
