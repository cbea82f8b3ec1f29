"""The limits of the broker level, also by default, and the use of those that all topics and clients share."""

from typing import Any

from sluicegate.model import Level, Source
from sluicegate.runtime.limits import BY_DEFAULT, Limit, Limits
from sluicegate.runtime.recent import SECONDS, Recent

_TOGETHER = ("publish_quota", "publish_quota_bytes")
"""Quotas of all principals together: messages, bytes."""


class BrokerUse:
    """The use of one broker's limits; it takes a reading once a second.

    :param limits: gives the limits.
    """

    def __init__(self, limits: Limits) -> None:
        self.latest: dict[str, dict[str, Any]] = {}
        """By policy, in the form of a topic's (`use`); only quotas of all principals have a use."""
        self._limits = limits
        self._recent = Recent()
        self._version = -1
        self._set: tuple[Limit, ...] = ()

    def read(self, now_ns: int, published: tuple[int, int]) -> None:
        """Take a reading.

        :param now_ns: monotonic time.
        :param published: messages and bytes of all principals who are not exempt, since the start.
        """
        self._recent.read(now_ns, *published)
        policies = self._limits.broker()
        if self._version != self._limits.version:
            self._version = self._limits.version
            self._set = self._limits.of_broker(policies)
        left = self._limits.factors.minimum(policies)
        self.latest = {limit.policy: self._use_of(limit, left) for limit in self._set}

    def _use_of(self, limit: Limit, left: float) -> dict[str, Any]:
        use = {"limit": limit.value, "in_force": limit.value, "level": limit.level, "source": limit.source}
        if limit.policy in _TOGETHER:
            index = _TOGETHER.index(limit.policy)
            use["in_force"] = limit.value * left if limit.mode.enforces else limit.value
            use["used_1s"], use["used_10s"] = (
                round(self._recent.rates(seconds)[index], 3) for seconds in (1, SECONDS)
            )
        return use


def use_of_connections(now: int, most: int, *, is_set: bool) -> dict[str, dict[str, Any]]:
    """The use of `max_connections`, in the form of a limit's.

    :param now: connections now.
    :param most: how many there may be.
    :param is_set: whether the broker's entry says so; otherwise file descriptors do.
    """
    level, source = (Level.BROKER.label, Source.FILE.label) if is_set else (BY_DEFAULT, Source.DEFAULT.label)
    limits = {"limit": most, "in_force": most, "level": level, "source": source}
    return {"max_connections": {**limits, "used_1s": now, "used_10s": now}}
