"""Refusals by the broker of messages that the gateway gave a delivery time, which no client can avoid.

Clients take the broker's error for one that passes: they reconnect and send the message again, for ever. And
it comes ahead of the receipts of earlier messages, upon which clients store those twice. So the gateway
answers such a message in its turn, with the code by which the client fails only that one (see `refusals`).
The broker decides, not the gateway: it alone knows what holds for the topic at that moment.
"""

from typing import NamedTuple

from sluicegate.engine.gate import Gate
from sluicegate_pulsar.events import PulsarEvent

_MOST_TOPICS = 1_000
_TOO_LATE = "Exceeds max allowed delivery delay"
_TOO_LARGE = "Exceed maximum message size"
"""How brokers begin the texts of these errors (`PersistentTopic`); nothing else tells them from others."""


class Explained(NamedTuple):
    """What is said of such a refusal."""

    event: PulsarEvent
    """Under which it is counted."""
    text: str


def explained(text: str, gate: Gate) -> Explained | None:
    """The broker's words and what the gateway has to do with it; None for any other error.

    :param text: of the broker's SEND_ERROR.
    :param gate: of the topic.
    """
    if text.startswith(_TOO_LATE):
        fixed = f"{gate.delay.fixed_ms} milliseconds" if gate.delay is not None else "removed"
        set_by = f"the gateway's fixed_delivery_delay is {fixed}"
        if gate.header_delay is not None:
            set_by = f"the gateway's delay_header is {gate.header_delay.header}"
        return Explained(PulsarEvent.FIXED_DELAY_REFUSED, f"{text}; {set_by}")
    if text.startswith(_TOO_LARGE):
        return Explained(
            PulsarEvent.ADDED_BYTES_REFUSED,
            f"{text}, with the bytes of the delivery time that the gateway adds",
        )
    return None


class Reports:
    """What the front is to log of such refusals, once for each topic and reason."""

    __slots__ = ("_known", "_new")

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self._new: list[tuple[str, str]] = []

    def add(self, topic_and_text: tuple[str, str]) -> None:
        """Note a refusal; further topics than 1,000 are only counted."""
        if topic_and_text not in self._known and len(self._known) < _MOST_TOPICS:
            self._known.add(topic_and_text)
            self._new.append(topic_and_text)

    def take(self) -> list[tuple[str, str]]:
        """Topic and text of those that were not taken yet."""
        taken, self._new = self._new, []
        return taken
