"""The trials of an arm: one for each policy, topic and phase, for the jobs to measure."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sluicegate.model import EffectivePolicies
from sluicegate_reports.model.results import Baseline
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.registry import policies
from sluicegate_reports.registry.measured import Family
from sluicegate_reports.runner.doors import Judged
from sluicegate_reports.runner.plan import ArmPlan, PhasePlan, ProducerPlan

_OVER_ALL = "it applies to all topics together, and trials are of single topics"
_ON_TRIAL = "it is not enforced for all (mode, observe_only)"


@dataclass(frozen=True, slots=True)
class Played:
    """When a plan was played."""

    attached_from: datetime
    """UTC: when the clients of the beginning began to attach."""
    zero: datetime | None
    """UTC: when the first phase began; None if it was not played."""
    missing: str = ""
    """Why it was not played."""
    read_until: datetime | None = None
    """UTC: when its consumers stopped reading."""

    def at(self, seconds: float) -> datetime:
        """A time of the run."""
        return (self.zero or self.attached_from) + timedelta(seconds=seconds)


def utc(us: int) -> datetime:
    """Us since 1970 as a time."""
    return datetime.fromtimestamp(us // 1_000_000, UTC) + timedelta(microseconds=us % 1_000_000)


def trials(
    plan: ArmPlan,
    resolve: Callable[[str], EffectivePolicies],
    judged: Mapping[str, Judged],
    played: Played,
) -> list[Trial]:
    """All trials of an arm.

    :param resolve: what holds for a topic, by its full name.
    :param judged: policies that the arm does not enforce exactly as stated.
    """
    tried = []
    used = [each.topic for each in plan.producers] + [each.topic for each in plan.consumers]
    for topic in dict.fromkeys(used):
        held = resolve(topic)
        for policy, measured in policies().items():
            limit = held.number(policy)
            if not limit or not held.level(policy):
                continue
            subscriptions = _subscriptions(plan, topic) if measured.by_subscription else [""]
            for index, phase in enumerate(plan.phases):
                if not _tried(plan, topic, policy, index):
                    continue
                tried += [
                    _trial(plan, played, held, policy, phase, index, subscription, judged)
                    for subscription in subscriptions
                ]
    return tried


def baselines(
    plan: ArmPlan, resolve: Callable[[str], EffectivePolicies], played: Played
) -> Iterator[Baseline]:
    """The topics of an arm whose door judges no policy."""
    for topic in dict.fromkeys(each.topic for each in plan.producers):
        held = resolve(topic)
        names = tuple(name for name in policies() if held.number(name) and held.level(name))
        for phase in plan.phases if names else ():
            start, end = played.at(phase.start_s), played.at(phase.end_s)
            yield Baseline(plan.system, topic, names, phase.name, start, end)


def _trial(
    plan: ArmPlan,
    played: Played,
    held: EffectivePolicies,
    policy: str,
    phase: PhasePlan,
    index: int,
    subscription: str,
    judged: Mapping[str, Judged],
) -> Trial:
    verdict = judged.get(policy, Judged())
    missing = played.missing
    if not missing and not held.enforces(policy):
        missing = _ON_TRIAL
    if not missing and policy == "connection_rate_limit":
        missing = _OVER_ALL
    attaching = policies()[policy].family is Family.COUNT and index == 0
    return Trial(
        policy,
        plan.system,
        plan.door,
        phase.name,
        held.topic,
        held.number(policy),
        played.attached_from if attaching else played.at(phase.start_s),
        played.at(phase.end_s),
        subscription,
        held.number("burst_seconds") or 1.0,
        _saturated(plan, held, policy, phase, index),
        verdict.nearest,
        missing,
        verdict.not_applicable,
    )


def _subscriptions(plan: ArmPlan, topic: str) -> list[str]:
    return list(dict.fromkeys(each.subscription for each in plan.consumers if each.topic == topic))


def _tried(plan: ArmPlan, topic: str, policy: str, index: int) -> bool:
    """Whether clients do what a policy limits in a phase."""
    family = policies()[policy].family
    producers = [each for each in plan.producers if each.topic == topic]
    consumers = [each for each in plan.consumers if each.topic == topic]
    if family is Family.COUNT:
        clients = producers if policy == "max_producers_per_topic" else consumers
        phase = plan.phases[index]
        starts = [each.start_s for each in clients]
        return any(start < phase.end_s and (index == 0 or start >= phase.start_s) for start in starts)
    if family is Family.ASKED_DELAY:
        producers = [each for each in producers if each.delay_ms]
    sending = any(_rate(each, index) > 0 for each in producers)
    if policies()[policy].operation == "dispatch":
        return bool(consumers) and sending
    return sending


def _rate(producer: ProducerPlan, index: int) -> float:
    """The least rate that a producer wants in a phase; 0 if it sends nothing."""
    return min(
        (min(each.rate, each.from_rate) for each in producer.stretches if each.phase == index), default=0.0
    )


def _saturated(plan: ArmPlan, held: EffectivePolicies, policy: str, phase: PhasePlan, index: int) -> bool:
    """Whether clients ask for more than the limit during the whole phase."""
    if policies()[policy].family is not Family.RATE:
        return True
    in_bytes = policy.endswith("_bytes")
    asked = 0.0
    for each in plan.producers:
        if each.topic == held.topic and _is_there(each, phase):
            asked += _rate(each, index) * (each.size if in_bytes else 1)
    # Of a limit in messages and one in bytes only the stricter one is reached.
    for limit in _publish_limits(held, plan, policy, in_bytes=in_bytes):
        asked = min(asked, limit)
    return asked >= held.number(policy)


def _publish_limits(held: EffectivePolicies, plan: ArmPlan, but: str, *, in_bytes: bool) -> Iterator[float]:
    """The rate that the publish policies admit, in messages or bytes a second.

    :param but: the policy under test.
    """
    sizes = [each.size for each in plan.producers if each.topic == held.topic]
    size = min(sizes, default=1)
    for policy, factor in (("max_publish_rate", size), ("max_publish_rate_bytes", 1)):
        limit = held.number(policy)
        if limit and policy != but:
            yield limit * factor if in_bytes else limit * factor / size


def _is_there(producer: ProducerPlan, phase: PhasePlan) -> bool:
    return producer.start_s <= phase.start_s and producer.stop_s >= phase.end_s - 1e-9


def phases(plan: ArmPlan, played: Played) -> Iterator[tuple[str, datetime, datetime]]:
    """Name, beginning and end of each played phase."""
    if played.zero is None or not math.isfinite(plan.phases[-1].end_s):
        return
    for phase in plan.phases:
        yield phase.name, played.at(phase.start_s), played.at(phase.end_s)
