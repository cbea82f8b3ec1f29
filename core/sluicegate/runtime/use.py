"""How much of its limits a topic uses.

The result is JSON: by policy, `limit` (what is set), `in_force` (what factors leave of it), the `level` and
`source` that set it, `used_1s` and `used_10s`. Of rates these are the averages of the last 1 and 10 seconds
in messages or bytes per second, of counts both are the number now; limits of other kinds have neither. Of
limits that each subscription has, the one that uses most counts.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from sluicegate.engine.state import SubscriptionState, TopicState
from sluicegate.engine.wait_queue import WaitQueue
from sluicegate.model import EffectivePolicies
from sluicegate.runtime.limits import Limit, Limits
from sluicegate.runtime.recent import SECONDS, Recent

SUBSCRIPTIONS = 50
"""Subscriptions of each topic whose rates are read: the first ones that have a limiter."""
PUBLISH = ("max_publish_rate", "max_publish_rate_bytes")
_DISPATCH = "max_dispatch_rate"
_ADAPTIVE = "adaptive_publish_throttling"
"""The limiter of adaptive throttling; its rates are 0 while it does not throttle."""
_RATES: Mapping[str, tuple[str, bool]] = {
    name: (key, name != key)
    for key in ("max_publish_rate", "max_dispatch_rate", "max_subscription_dispatch_rate")
    for name in (key, f"{key}_bytes")
}
"""By policy, the key of its limiter and whether it limits bytes."""
RATE_TYPES = {
    "max_publish_rate": "publish",
    "max_dispatch_rate": "dispatch",
    "max_subscription_dispatch_rate": "subscription",
}
"""The label `rate_type` by key of the limiter."""


def _most(of: Callable[[SubscriptionState], int]) -> Callable[[TopicState], int]:
    return lambda state: max(map(of, state.subscriptions.values()), default=0)


_COUNTS: Mapping[str, Callable[[TopicState], int]] = {
    "max_producers_per_topic": lambda state: len(state.producers),
    "max_subscriptions_per_topic": lambda state: state.subscription_count,
    "max_consumers_per_topic": lambda state: state.consumer_count,
    "max_consumers_per_subscription": _most(lambda subscription: len(subscription.consumers)),
    "max_unacked_messages_per_consumer": _most(lambda each: max(each.unacked.values(), default=0)),
}


class TopicUse:
    """The use of one topic's limits; it reads running totals once a second.

    :param state: the topic's state. One that was evicted and came again needs another of these.
    """

    __slots__ = ("_limits", "_of_subscriptions", "_of_topic", "_policies", "_version", "state")

    def __init__(self, state: TopicState) -> None:
        self.state = state
        self._of_topic = {PUBLISH[0]: Recent(), _DISPATCH: Recent()}
        self._of_subscriptions: dict[tuple[str, str], tuple[WaitQueue, Recent]] = {}
        self._version = -1
        self._policies: EffectivePolicies | None = None
        self._limits: tuple[Limit, ...] = ()

    def read(self, limits: Limits, now_ns: int) -> dict[str, Any]:
        """Take a reading.

        :param now_ns: monotonic time.
        :return: the use of all limits that are set, as the module describes it.
        """
        if self._version != limits.version:
            self._version = limits.version
            self._policies = limits.resolve(self.state.topic.full)
            self._limits = limits.of_topic(self._policies)
        self._read_totals(now_ns)
        return {limit.policy: self._use_of(limit, limits) for limit in self._limits}

    def _read_totals(self, now_ns: int) -> None:
        """Read what passed: of the topic, less what exempt principals sent and got, and of subscriptions."""
        state = self.state
        self._of_topic[PUBLISH[0]].read(
            now_ns, state.allowed_messages - state.exempt_messages, state.allowed_bytes - state.exempt_bytes
        )
        self._of_topic[_DISPATCH].read(
            now_ns,
            state.dispatched_messages - state.exempt_dispatched_messages,
            state.dispatched_bytes - state.exempt_dispatched_bytes,
        )
        known, self._of_subscriptions = self._of_subscriptions, {}
        limited = (each for each in tuple(state.subscriptions.values()) if each.limiters)
        for subscription in islice(limited, SUBSCRIPTIONS):
            for key, limiter in subscription.limiters.items():
                before = known.get((subscription.name, key))
                recent = before[1] if before is not None and before[0] is limiter else Recent()
                recent.read(now_ns, limiter.passed_messages, limiter.passed_bytes)
                self._of_subscriptions[subscription.name, key] = limiter, recent

    def _use_of(self, limit: Limit, limits: Limits) -> dict[str, Any]:
        use: dict[str, Any] = {"limit": limit.value, "in_force": limit.value}
        use |= {"level": limit.level, "source": limit.source}
        if limit.policy in _RATES:
            use["in_force"] = self._in_force(limit, limits)
            use["used_1s"], use["used_10s"] = (self._rate(limit, seconds) for seconds in (1, SECONDS))
        elif (count := _COUNTS.get(limit.policy)) is not None:
            use["used_1s"] = use["used_10s"] = count(self.state)
        return use

    def _rate(self, limit: Limit, seconds: int) -> float:
        key, by_bytes = _RATES[limit.policy]
        if (recent := self._of_topic.get(key)) is not None:
            return round(recent.rates(seconds)[by_bytes], 3)
        keys = {limit.mode.own(name) for name in (key, limit.policy)}
        used = (recent for (_, of), (_, recent) in self._of_subscriptions.items() if of in keys)
        return round(max((recent.rates(seconds)[by_bytes] for recent in used), default=0.0), 3)

    def _in_force(self, limit: Limit, limits: Limits) -> float:
        """What factors and adaptive throttling leave of a rate; they reduce publishing alone."""
        if limit.policy not in PUBLISH or not limit.mode.enforces:
            return limit.value
        left = limit.value * limits.factors.minimum(self._policies)
        throttle = self.state.limiters.get(_ADAPTIVE)
        if throttle is not None and self._policies is not None and not self._policies.observes(_ADAPTIVE):
            bucket = throttle.bucket
            target = bucket.bytes_per_s if _RATES[limit.policy][1] else bucket.messages_per_s
            left = min(left, target or left)
        return left


def utilization(use: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Percent of each kind of rate in use, by window; of messages and bytes, the one that is used most.

    :param use: of a topic, as `TopicUse.read` returns it.
    :return: by `rate_type` and window (`1s`, `10s`). A limit of 0, while a factor pauses publishing, is used
        whole.
    """
    shares: dict[str, dict[str, float]] = {}
    for policy, (key, _) in _RATES.items():
        if (limit := use.get(policy)) is None:
            continue
        of_type = shares.setdefault(RATE_TYPES[key], {"1s": 0.0, "10s": 0.0})
        for window in of_type:
            percent = 100 * limit[f"used_{window}"] / limit["in_force"] if limit["in_force"] else 100.0
            of_type[window] = max(of_type[window], round(percent, 3))
    return shares
