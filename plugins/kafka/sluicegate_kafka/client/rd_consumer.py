"""confluent-kafka's consumer with the policies in its process."""

from contextlib import suppress
from threading import Event
from time import monotonic_ns
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaException, Message, TopicPartition

from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.receiving import Receiver
from sluicegate.client.refused import RefusedError
from sluicegate.client.sync import finish
from sluicegate.model import OperationKind
from sluicegate_kafka.client.rd_errors import consume_error
from sluicegate_kafka.client.rd_settings import principal_of, settings_of

_AUTO_STORE = "enable.auto.offset.store"
_TIMEOUT_NS = 60_000_000_000
"""How long a consumer waits for its places."""
_FOR_EVER_S = 3600.0


class Consumer(confluent_kafka.Consumer):
    """confluent-kafka's consumer; a message that has to wait stays at the broker.

    Its partition is paused and its position goes back to it. Offsets are stored for the commit only when the
    application gets their messages. Other partitions go on, and the member stays in its group.

    :param policies: an engine, the path of a policy file, or the URL of a gateway's admin endpoint.
    :param broker: the cluster's entry in that file; by default the first one.
    :raises ConfigErrors: if the file has errors.
    """

    def __init__(self, *args: Any, policies: Policies, broker: str | None = None, **options: Any) -> None:
        settings = settings_of(args, options)
        # librdkafka would store the offset of a message that is withheld.
        self._stores = str(settings.get(_AUTO_STORE, True)).lower() != "false"
        self._open_policies = OpenPolicies(policies, "kafka", broker)
        with self._open_policies.closed_on_error():
            super().__init__(settings | {_AUTO_STORE: False})
        self._group = str(settings.get("group.id", ""))
        self._policed = PolicedClient(
            self._open_policies.engine,
            principal_of(settings),
            settings.get("client.id", "rdkafka"),
            _TIMEOUT_NS,
        )
        self._receivers: dict[str, Receiver] = {}
        self._withheld: dict[tuple[str, int], int] = {}
        """Partitions that are paused until their next message may pass, with that monotonic time."""
        self._never = Event()

    def poll(self, timeout: float = -1) -> Message | None:
        """The next message, as the original's, that may pass now."""
        messages = self.consume(1, timeout)
        return messages[0] if messages else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Messages, as the original's, as far as they may pass now."""
        end_ns = monotonic_ns() + int((timeout if timeout >= 0 else _FOR_EVER_S) * 1e9)
        passed: list[Message] = []
        while True:
            now_ns = monotonic_ns()
            left_s = max(0.0, (min(end_ns, self._resume_due(now_ns)) - now_ns) / 1e9)
            messages = super().consume(num_messages - len(passed), left_s)
            passed += [each for each in messages if self._may_pass(each)]
            if len(passed) >= num_messages or (timeout >= 0 and monotonic_ns() >= end_ns):
                return passed

    def close(self) -> None:
        """Commit and close, as the original; the consumer's places are free then."""
        try:
            super().close()
        finally:
            self._policed.end(monotonic_ns())
            self._open_policies.close()

    def __exit__(self, *error: Any) -> None:
        """Close it."""
        self.close()

    # -- deciding -------------------------------------------------------------------------------------

    def _may_pass(self, message: Message) -> bool:
        """Whether the application gets a message now; if not, it is fetched again later."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if message.error() is not None or topic is None or partition is None or offset is None:
            return True
        place = (topic, partition)
        if place in self._withheld:
            return False  # behind one that waits
        receiver = self._receivers.get(topic) or self._receiver(topic)
        wait_ns = receiver.wait_ns(_size(message), message.timestamp()[1], monotonic_ns())
        if wait_ns:
            self._withhold(place, offset, wait_ns)
            return False
        if self._stores:
            self.store_offsets(message)
        return True

    def _withhold(self, place: tuple[str, int], offset: int, wait_ns: int) -> None:
        here = TopicPartition(*place, offset)
        with suppress(KafkaException):  # revoked meanwhile: its next owner fetches it
            super().pause([here])
            self.seek(here)
            self._withheld[place] = monotonic_ns() + wait_ns

    def _resume_due(self, now_ns: int) -> int:
        """Fetch again what may pass by now; returns when more is due."""
        for place in [place for place, at_ns in tuple(self._withheld.items()) if at_ns <= now_ns]:
            self._withheld.pop(place, None)
            with suppress(KafkaException):  # not assigned to this member any more
                super().resume([TopicPartition(*place)])
        return min(tuple(self._withheld.values()), default=2**62)

    # -- pausing --------------------------------------------------------------------------------------

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Suspend fetching, as the original; a partition that the policies hold is then the application's."""
        for each in partitions:
            self._withheld.pop((each.topic, each.partition), None)
        super().pause(partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Resume fetching, as the original, but for partitions that the policies hold."""
        super().resume([each for each in partitions if (each.topic, each.partition) not in self._withheld])

    # -- attaching ------------------------------------------------------------------------------------

    def subscribe(self, topics: list[str], *args: Any, **options: Any) -> None:
        """Join the group, as the original, once there is a place on each topic.

        :raises KafkaException: if there is none.
        """
        for topic in topics:
            if not topic.startswith("^"):  # of a pattern's topics the first message tells
                self._receiver(topic)
        super().subscribe(topics, *args, **options)

    def _receiver(self, topic: str) -> Receiver:
        """Attach as a consumer of a topic."""
        receiver = self._receivers.get(topic)
        if receiver is None:
            policed, group, kind = self._policed, self._group, OperationKind.ATTACH_CONSUMER
            try:
                finish(policed.engine, lambda turn: policed.attaching(turn, kind, topic, group), self._never)
            except RefusedError as refused:
                raise consume_error(refused) from refused
            receiver = self._receivers.setdefault(topic, Receiver(policed, topic, group))
        return receiver


def _size(message: Message) -> int:
    """Bytes of a message's payload, as its producer's wrapper counts them."""
    headers = message.headers() or ()
    pairs = headers.items() if isinstance(headers, dict) else headers
    nbytes = len(message.key() or b"") + len(message.value() or b"")
    return nbytes + sum(len(name) + len(content or b"") for name, content in pairs)
