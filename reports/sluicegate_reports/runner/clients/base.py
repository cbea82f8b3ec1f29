"""The interface of a client library."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from sluicegate_reports.runner.plan import ConsumerPlan, ProducerPlan


class RefusedError(Exception):
    """The system refused, with a code of its protocol.

    :param code: its name in the client.
    :param text: its message.
    """

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code}: {text}" if text else code)
        self.code = code
        self.text = text


class FailedError(RefusedError):
    """No answer, or one that leaves open whether the message is stored."""


class Delivery(NamedTuple):
    """A message that a consumer received."""

    payload: bytes
    acknowledge: Callable[[], object] | None
    """Acknowledges it; None where the system has no acknowledgement of single messages."""


OnDelivery = Callable[[Delivery], None]
"""Called for each message, from any thread."""


class DrivenProducer(Protocol):
    """One producer."""

    attaches_by_publishing: bool = False
    """True where producers do not register: the first message decides whether one is admitted."""

    def turned_away(self, refusal: RefusedError) -> bool:
        """Whether a refusal of the first message is one of the producer, where it attaches by publishing."""
        return False

    async def attach(self) -> None:
        """Connect and register.

        :raises RefusedError: if it is refused.
        """

    async def publish(self, payload: bytes) -> None:
        """Send one message; returns when it is acknowledged.

        :raises RefusedError: if it is refused, or fails.
        """

    async def close(self) -> None:
        """Leave, and abandon unanswered messages."""


class DrivenConsumer(Protocol):
    """One consumer."""

    async def attach(self, deliver: OnDelivery) -> None:
        """Join, and start to receive.

        :raises RefusedError: if it is refused.
        """

    async def close(self) -> None:
        """Leave."""


class ClientDriver(Protocol):
    """One client library; it drives the clients of one arm, in their own process."""

    def producer(self, plan: ProducerPlan) -> DrivenProducer:
        """A producer that is not attached yet."""

    def consumer(self, plan: ConsumerPlan) -> DrivenConsumer:
        """A consumer that is not attached yet."""
