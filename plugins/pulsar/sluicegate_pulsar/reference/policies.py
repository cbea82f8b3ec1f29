"""Delayed-delivery policies as the admin API sets them: for a namespace or a topic, the closer one wins."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate_pulsar.reference.delays import DelaySettings


@dataclass(frozen=True, slots=True)
class DelayedDelivery:
    """One group of settings; it is set and inherited as a whole."""

    active: bool = True
    tick_ms: int = 0
    max_delay_ms: int = 0

    @classmethod
    def from_json(cls, document: object) -> "DelayedDelivery":
        """Read what a client posted. Fields that Pulsar does not know are ignored silently, as it does.

        :raises ValueError: if a known field has the wrong type, or is below 0.
        """
        if not isinstance(document, Mapping):
            raise ValueError(f"expected an object, not {document!r}")
        active = document.get("active", False)
        if not isinstance(active, bool):
            raise ValueError(f"expected active to be true or false, not {active!r}")
        numbers = []
        for name in ("tickTime", "maxDeliveryDelayInMillis"):
            value = document.get(name, 0)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"expected {name} to be a number of ms, 0 or more, not {value!r}")
            numbers.append(value)
        return cls(active, *numbers)

    def to_json(self) -> dict[str, object]:
        """As a client reads it."""
        return {
            "active": self.active,
            "tickTime": self.tick_ms,
            "maxDeliveryDelayInMillis": self.max_delay_ms,
        }

    def apply(self, settings: DelaySettings) -> None:
        """Make it hold for a topic."""
        settings.active = self.active
        settings.tick_ms = self.tick_ms
        settings.max_delay_ms = self.max_delay_ms
