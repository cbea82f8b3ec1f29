"""Publishing."""

from sluicegate_pulsar.connection import Connection, Handler
from sluicegate_pulsar.lookup import Lookup
from sluicegate_pulsar.shared import Shared


class Producing:
    """The publishing side of one connection."""

    __slots__ = ("_connection", "_lookup", "_shared")

    def __init__(self, shared: Shared, connection: Connection, lookup: Lookup) -> None:
        self._shared = shared
        self._connection = connection
        self._lookup = lookup

    @property
    def client_handlers(self) -> dict[int, Handler]:
        """What this room looks at of the client's."""
        return {}

    @property
    def broker_handlers(self) -> dict[int, Handler]:
        """What this room looks at of the broker's."""
        return {}

    def closed(self, now_ns: int) -> None:
        """Detach all producers of this connection."""
