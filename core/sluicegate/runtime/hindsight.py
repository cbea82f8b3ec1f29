"""Whom changed policies would have held or refused in the last hour, estimated from the decision log."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import EffectivePolicies, TopicName
from sluicegate.policies.rate import BURST_SECONDS, DEFAULT_BURST_SECONDS, Rate, rates_of
from sluicegate.policies.size import MESSAGE_SIZE
from sluicegate.runtime.replayed import Limit, Replayed, SizeLimit

if TYPE_CHECKING:
    from sluicegate.decisions.lookback import Row

SECONDS = 3_600
"""How far it looks back."""
_MOST_TOPICS = 50
_LONGEST_S = 3.0
"""Longest time for the replay alone."""
_LOOK_EVERY = 1_024
_RATES = {
    "publish": ("max_publish_rate", "max_publish_rate_bytes"),
    "dispatch": ("max_dispatch_rate", "max_dispatch_rate_bytes"),
    "subscription": ("max_subscription_dispatch_rate", "max_subscription_dispatch_rate_bytes"),
}
_COUNTS = ("max_producers_per_topic", "max_consumers_per_topic", "max_subscriptions_per_topic")
_OPTIONS = ("mode.", "on_limit.", "ceiling.")
_OF_RATES = frozenset(name for names in _RATES.values() for name in names)
_ESTIMATED = frozenset({*_OF_RATES, BURST_SECONDS, MESSAGE_SIZE, *_COUNTS})


class Compared(NamedTuple):
    """One broker before and after a change."""

    config: BrokerConfig
    name_of: Callable[[str], TopicName]
    before: Resolver
    after: Resolver


@dataclass(frozen=True, slots=True)
class Hindsight:
    """Estimates what a change would have done; belongs to one thread, and `look` blocks.

    :param brokers: by name.
    :param changed: policies and options that the change sets or unsets.
    :param fields: for texts.
    :param directory: of the decision log; None if it is off.
    :param counts: how many producers, consumers and subscriptions the topics in use have now, by broker,
        topic and policy.
    """

    brokers: Mapping[str, Compared]
    changed: frozenset[str]
    fields: PolicyFields
    directory: Path | None
    counts: Sequence[tuple[str, str, str, int]] = ()
    _limits: dict[tuple[str, str], list[Replayed]] = field(default_factory=dict)

    def look(self, now_s: float) -> dict[str, Any]:
        """Replay the new limits over the last hour.

        :param now_s: seconds since 1970.
        :return: `known`; if it is False, `reason` and `remedy`. Otherwise `from_ms` and `to_ms`;
            `resolution_ms`, the length of the log's windows, or 0; `notes` on what was left out;
            `topics` that would have been limited, each with the `share` of its messages that would have
            been `held` or `refused`, and the same of `principals` and `clients`; how many there are as
            `topics_total`; `counts` above a maximum now; and `not_estimated`, policies that it does not
            replay.
        """
        changed = {_policy_of(name) for name in self.changed}
        answer = self._without_log(now_s, changed)
        if changed.isdisjoint(_ESTIMATED - set(_COUNTS)):
            return answer
        if self.directory is None:
            remedy = "set decisions.enabled to true, restart the gateway, and ask again after an hour"
            return {**answer, **_unknown("the decision log is off", remedy)}
        from sluicegate.decisions.lookback import look_back, rows  # loads Arrow, 40 MB

        decisions = look_back(self.directory, now_s - SECONDS, self._is_limited)
        if not decisions.has_files:
            remedy = "ask again once clients have published through the gateway"
            return {**answer, **_unknown(f"there is no decision log yet in {self.directory}", remedy)}
        if len(decisions.table) and decisions.notes:
            answer["from_ms"] = decisions.table["time"][0].as_py() // 1000
        resolution_ms, last_ms = self._replay(rows(decisions.table))
        notes = [*decisions.notes, *self._unsaid(resolution_ms)]
        if last_ms is not None:
            answer["to_ms"] = last_ms
            notes.append(f"the replay took longer than {_LONGEST_S:g} s and ended early")
        answer.update(resolution_ms=resolution_ms, notes=notes)
        limited = [each for each in self._replays() if each.total.over]
        limited.sort(key=lambda each: -each.total.over)
        answer["topics"] = [self._row(each) for each in limited[:_MOST_TOPICS]]
        return {**answer, "topics_total": len(limited)}

    def _without_log(self, now_s: float, changed: AbstractSet[str]) -> dict[str, Any]:
        """What can be said without the log."""
        return {
            "known": True,
            "from_ms": round((now_s - SECONDS) * 1000),
            "to_ms": round(now_s * 1000),
            "resolution_ms": 0,
            "notes": [],
            "topics": [],
            "topics_total": 0,
            "counts": list(self._counts_above()),
            "not_estimated": sorted(changed - _ESTIMATED),
        }

    def _replay(self, rows: Iterable["Row"]) -> tuple[int, int | None]:
        """Replay the log: the length of its longest window, and where it ended early; ms."""
        resolution_ms, until = 0, time.monotonic() + _LONGEST_S
        for number, row in enumerate(rows):
            resolution_ms = max(resolution_ms, row.window)
            for replayed in self._limits[row.gateway, row.topic]:
                replayed.take(row)
            if number % _LOOK_EVERY == 0 and time.monotonic() > until:
                return resolution_ms, row.time_us // 1000
        return resolution_ms, None

    def _unsaid(self, resolution_ms: int) -> Iterator[str]:
        """What the log does not tell."""
        if not resolution_ms:
            return
        yield (
            f"the log has allows in windows of {resolution_ms} ms without principals and clients: "
            "decisions.detail: full names them"
        )
        if any(not each.limit.mode.enforces for each in self._replays()):
            yield "canaries are estimated from windows as if they applied to everybody"
        if any(each.limit.kind == "subscription" for each in self._replays()):
            yield "rates of subscriptions are not estimated from windows"

    def _is_limited(self, broker: str, topic: str) -> bool:
        """Whether a topic of the log has a stricter limit than before, which is then replayed."""
        key = (broker, topic)
        if key not in self._limits:
            compared = self.brokers.get(broker)
            limits = _stricter(compared, topic) if compared is not None else ()
            self._limits[key] = [Replayed(*key, limit) for limit in limits]
        return bool(self._limits[key])

    def _replays(self) -> Iterator[Replayed]:
        for replays in self._limits.values():
            yield from replays

    def _row(self, replayed: Replayed) -> dict[str, Any]:
        limit = replayed.limit
        return {
            "broker": replayed.broker,
            "topic": replayed.topic,
            "operation": limit.operation,
            "limits": {name: self.fields.text(name, value) for name, value in limit.limits.items()},
            **replayed.answer(),
        }

    def _counts_above(self) -> Iterator[dict[str, Any]]:
        """Topics that have more now than they may have then."""
        for broker, topic, policy, count in self.counts:
            compared = self.brokers[broker]
            name = compared.name_of(topic)
            was, will = (_count(each.resolve(name), policy) for each in (compared.before, compared.after))
            if 0 < will < count and (not was or will < was):
                row = {"broker": broker, "topic": topic, "field": policy, "count": count, "limit": int(will)}
                yield {**row, "over": count - int(will)}


def _unknown(reason: str, remedy: str) -> dict[str, Any]:
    return {"known": False, "reason": reason, "remedy": remedy}


def _policy_of(name: str) -> str:
    for option in _OPTIONS:
        name = name.removeprefix(option)
    return name


def _count(policies: EffectivePolicies, policy: str) -> float:
    return 0 if policies.mode(policy).observes else policies.number(policy)


def _stricter(compared: Compared, topic: str) -> Iterator[Limit | SizeLimit]:
    """The limits of a topic that are new, lower than before, or for others than before."""
    name = compared.name_of(topic)
    was, will = compared.before.resolve(name), compared.after.resolve(name)
    config = compared.config
    exempt = frozenset(config.exempt.principals)
    for kind, names in _RATES.items():
        for rate in rates_of(will, kind, *names):
            limits = dict(zip(names, (rate.messages_per_s, rate.bytes_per_s), strict=True))
            limits = {name: limit for name, limit in limits.items() if limit}
            if not rate.mode.observes and _is_stricter(rate, limits, was):
                yield Limit(kind, rate, limits, config.max_hold, exempt)
    size, mode = _count(will, MESSAGE_SIZE), will.mode(MESSAGE_SIZE)
    if _is_lower(size, _count(was, MESSAGE_SIZE)) or (size and was.mode(MESSAGE_SIZE) != mode):
        skips = exempt if MESSAGE_SIZE in config.exempt.policies else frozenset()
        yield SizeLimit(int(size), mode, skips)


def _is_stricter(rate: Rate, limits: Mapping[str, float], was: EffectivePolicies) -> bool:
    """Whether a rate can hold or refuse what passed with the policies before."""
    burst = was.number(BURST_SECONDS) or DEFAULT_BURST_SECONDS
    refuses = rate.on_limit != "delay" == was.on_limit(rate.names)
    return (
        refuses
        or rate.burst_seconds < burst
        or any(
            _is_lower(limit, _count(was, name)) or was.mode(name) != rate.mode
            for name, limit in limits.items()
        )
    )


def _is_lower(limit: float, before: float) -> bool:
    """Whether a limit is lower than another one, of which 0 is none."""
    return limit > 0 and (not before or limit < before)
