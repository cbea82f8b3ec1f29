"""Delayed-delivery policies as the admin API sets them: the topic's policy wins over the namespace's."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate_pulsar.reference.delays import DelaySettings


@dataclass(frozen=True, slots=True)
class DelayedDelivery:
    """One group of settings, which is set and inherited as a whole."""

    active: bool = True
    tick_ms: int = 0
    """0 or less: the broker's."""
    max_delay_ms: int = 0

    @classmethod
    def from_json(cls, document: object) -> "DelayedDelivery":
        """Read what a client posted, as leniently as Pulsar does.

        Unknown fields are ignored silently, and numbers below 0 are accepted.

        :raises ValueError: if a known field has the wrong type.
        """
        if not isinstance(document, Mapping):
            raise ValueError(f"expected an object, not {document!r}")
        names = ("active", "tickTime", "maxDeliveryDelayInMillis")
        active, *numbers = (document.get(name, 0) for name in names)
        for name, value in zip(names, (active, *numbers), strict=True):
            if not isinstance(value, int):
                raise ValueError(f"expected {name} to be a number of ms or a truth value, not {value!r}")
        return cls(bool(active), *numbers)

    def to_json(self) -> dict[str, object]:
        """The form in which clients read it."""
        return {
            "active": self.active,
            "tickTime": self.tick_ms,
            "maxDeliveryDelayInMillis": self.max_delay_ms,
        }

    def apply(self, settings: DelaySettings) -> None:
        """Apply it to a topic."""
        settings.active = self.active
        settings.tick_ms = self.tick_ms
        settings.max_delay_ms = self.max_delay_ms
