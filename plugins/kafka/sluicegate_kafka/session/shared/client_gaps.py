"""Which clients have gaps in the numbers of their producers, and how each is helped over them."""

from sluicegate_kafka.codec.produce_requests import ProduceTopic
from sluicegate_kafka.session.requests.connection import Connection, Identity
from sluicegate_kafka.session.shared.sequences import GapCount, Sequences

_FRANZ_GO = "kgo"
_MAX_FRANZ_GO = 10_000
"""Clients that are known to be franz-go; those that said so long ago are forgotten."""
_MAX_CLIENTS_WITH_GAPS = 10_000
_MAX_GAPS = 100_000
"""Gaps of all clients together; one refused request may add a thousand more."""


class ClientGaps:
    """The gaps of all clients; bounded."""

    __slots__ = ("_count", "_franz_go", "by_client")

    def __init__(self) -> None:
        self.by_client: dict[Identity, Sequences] = {}
        """For clients that have any; last refused is last."""
        self._count = GapCount()
        self._franz_go: dict[int, None] = {}
        """Hashes of host and client id; who said so last is last."""

    def named(self, connection: Connection) -> None:
        """A client names its library. franz-go does so on one of its connections, so it is remembered."""
        if connection.software == _FRANZ_GO:
            key = hash(connection.identity[1:])
            self._franz_go.pop(key, None)
            self._franz_go[key] = None
            if len(self._franz_go) > _MAX_FRANZ_GO:
                del self._franz_go[next(iter(self._franz_go))]

    def of(self, connection: Connection) -> Sequences:
        """The gaps of a client that is refused now; those of clients refused long ago give way."""
        identity, renumbers = connection.identity, self._renumbers(connection)
        sequences = self.by_client.pop(identity, None) or Sequences(self._count, renumbers=renumbers)
        sequences.renumbers = renumbers
        self.by_client[identity] = sequences
        while len(self.by_client) > _MAX_CLIENTS_WITH_GAPS or self._count.gaps > _MAX_GAPS:
            self.by_client.pop(next(iter(self.by_client))).clear()
        return sequences

    def postponed(self, connection: Connection, topic: ProduceTopic) -> None:
        """A topic's batches are refused for now: what their client has under way behind them must wait."""
        if topic.producer_id >= 0 and not self._renumbers(connection):
            self.of(connection).postponed(topic)

    def _renumbers(self, connection: Connection) -> bool:
        """Whether a client does not name its library.

        It is aiokafka or kafkajs, which send one batch of a partition at a time, or older than Kafka 2.4.
        """
        return not connection.software and hash(connection.identity[1:]) not in self._franz_go
