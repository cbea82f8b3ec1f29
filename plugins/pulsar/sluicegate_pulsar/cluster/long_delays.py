"""Fixed delays that are longer than the brokers allow by default: messages that carry them are refused."""

import logging
from typing import Final, NamedTuple

from sluicegate.model import PolicySet

log = logging.getLogger("sluicegate.pulsar")

LONGEST_DELAY: Final = "delayedDeliveryMaxDelayInMillis"
"""The setting of `broker.conf`; 0 allows any delay."""
_FIXED = "fixed_delivery_delay"


class _TooLong(NamedTuple):
    where: str
    fixed_ms: int
    longest_ms: int


class LongDelays:
    """Warns of each such delay once for each limit that the brokers have."""

    def __init__(self) -> None:
        self.longest_ms = 0
        """What the brokers allow, in ms; 0 for any, or while they have not said."""
        self._policies: PolicySet | None = None
        self._asked_ms = 0
        self._warned: set[_TooLong] = set()

    def warn(self, policies: PolicySet) -> None:
        """Log the delays that are too long, each once.

        :param policies: in force now.
        """
        if policies is self._policies and self._asked_ms == self.longest_ms:
            return
        self._policies, self._asked_ms = policies, self.longest_ms
        too_long = _too_long(policies, self.longest_ms)
        for each in sorted(too_long - self._warned):
            log.warning(
                "fixed_delivery_delay of %s is %d ms, but the brokers refuse messages with more than %d ms "
                "(%s), unless they have another limit for the topic or its namespace: raise the limit, or "
                "set the delay through the web listener, which removes the limit there",
                *each,
                LONGEST_DELAY,
            )
        self._warned = too_long


def _too_long(policies: PolicySet, longest_ms: int) -> set[_TooLong]:
    if not longest_ms or policies.observe_only:
        return set()
    return {
        _TooLong(f"{layer.level.label} {layer.name}".rstrip(), fixed_ms, longest_ms)
        for layer in policies.layers
        if _FIXED in layer.settings and (fixed_ms := int(layer.settings[_FIXED].value)) > longest_ms
    }
