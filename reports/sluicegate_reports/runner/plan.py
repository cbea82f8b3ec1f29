"""The plan of one arm's clients, in the form that their process reads."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate_reports.registry import kinds
from sluicegate_reports.runner.names import full_name
from sluicegate_reports.runner.pacing import Stretch, within
from sluicegate_reports.runner.scenario import Consumer, Producer, Scenario


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    """One producer."""

    name: str
    topic: str
    """Full name."""
    stretches: tuple[Stretch, ...]
    size: int
    """Bytes of each payload."""
    delay_ms: int
    in_flight: int
    start_s: float
    stop_s: float
    retry_s: float
    """0: it tries to attach once."""
    partitions: int = 1


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """One consumer."""

    name: str
    topic: str
    """Full name."""
    subscription: str
    kind: str
    start_s: float
    stop_s: float
    retry_s: float
    acknowledge: bool
    acknowledge_after_s: float = 0.0
    """How long it keeps a message before it acknowledges it."""


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """A period of the run."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """All that the clients of one arm do."""

    run: str
    system: str
    door: str
    client: str
    """Which clients are driven: those for a system, or the import path of a driver as `module:name`."""
    addresses: tuple[str, ...]
    """Where they connect, host:port."""
    options: Mapping[str, str]
    """Settings that the door gives to clients, such as a shared client id."""
    directory: str
    """The run's `observations`."""
    phases: tuple[PhasePlan, ...]
    producers: tuple[ProducerPlan, ...]
    consumers: tuple[ConsumerPlan, ...]
    drain_s: float
    asks_delays: bool = False
    """Whether its clients can ask for a delivery delay."""
    acknowledges_each: bool = False
    """Whether its consumers acknowledge single messages: Kafka's commit offsets."""


_BRIEF_MS = 3_000
_BRIEF_DRAIN_MS = 1_000


def brief(scenario: Scenario) -> Scenario:
    """The first seconds of a scenario, enough for what messages cost, with those who are there by then."""
    phase = scenario.phases[0]
    phase = phase.model_copy(update={"duration": min(phase.duration, _BRIEF_MS)})
    return scenario.model_copy(
        update={
            "phases": (phase,),
            "producers": tuple(each for each in scenario.producers if each.start < phase.duration),
            "consumers": tuple(each for each in scenario.consumers if each.start < phase.duration),
            "drain": min(scenario.drain, _BRIEF_DRAIN_MS),
        }
    )


def topics(scenario: Scenario, system: str, suffix: str) -> dict[str, str]:
    """Full names of a scenario's topics in an arm, by their names in the scenario."""
    return {topic.name: full_name(system, topic.namespace, topic.name, suffix) for topic in scenario.topics}


def make_plan(
    scenario: Scenario,
    kind: str,
    suffix: str,
    *,
    run: str,
    system: str,
    door: str,
    client: str,
    addresses: tuple[str, ...],
    options: Mapping[str, str],
    directory: str,
) -> ArmPlan:
    """What the clients of an arm do. The parameters without a description are those of `ArmPlan`.

    :param kind: of broker, one of `registry.kinds`.
    :param suffix: of the names of the arm's topics.
    """
    names = topics(scenario, kind, suffix)
    partitions = {topic.name: topic.partitions for topic in scenario.topics}
    producers = [
        _producer(each, number, names[each.topic], scenario, partitions[each.topic])
        for each in scenario.producers
        for number in range(1, each.count + 1)
    ]
    consumers = [
        _consumer(each, number, names[each.topic], scenario)
        for each in scenario.consumers
        for number in range(1, each.count + 1)
    ]
    return ArmPlan(
        run,
        system,
        door,
        client,
        addresses,
        options,
        directory,
        _phases(scenario),
        tuple(producers),
        tuple(consumers),
        scenario.drain / 1000,
        kinds()[kind].asks_delays,
        kinds()[kind].acknowledges_each,
    )


def _phases(scenario: Scenario) -> tuple[PhasePlan, ...]:
    phases = []
    at = 0.0
    for phase in scenario.phases:
        phases.append(PhasePlan(phase.name, at, at + phase.duration / 1000))
        at = phases[-1].end_s
    return tuple(phases)


def _producer(each: Producer, number: int, topic: str, scenario: Scenario, partitions: int) -> ProducerPlan:
    start_s, stop_s = each.start / 1000, _stop_s(each, scenario)
    return ProducerPlan(
        _numbered(each.name, number, each.count),
        topic,
        tuple(within(_stretches(each, scenario), start_s, stop_s)),
        each.size,
        each.delay,
        each.in_flight,
        start_s,
        stop_s,
        each.retry / 1000,
        partitions,
    )


def _consumer(each: Consumer, number: int, topic: str, scenario: Scenario) -> ConsumerPlan:
    own = _numbered(each.subscription, number, each.count) if each.each else each.subscription
    return ConsumerPlan(
        _numbered(each.name, number, each.count),
        topic,
        own,
        each.kind,
        each.start / 1000,
        # Who has no end reads on while the run drains.
        _stop_s(each, scenario) if each.stop is not None else math.inf,
        each.retry / 1000,
        each.acknowledge,
        each.acknowledge_after / 1000,
    )


def _stop_s(each: Producer | Consumer, scenario: Scenario) -> float:
    end = scenario.duration_ms if each.stop is None else min(each.stop, scenario.duration_ms)
    return end / 1000


def _numbered(name: str, number: int, count: int) -> str:
    return name if count == 1 else f"{name}-{number}"


def _stretches(producer: Producer, scenario: Scenario) -> list[Stretch]:
    stretches: list[Stretch] = []
    last = _rate(producer.rate)
    for index, (phase, times) in enumerate(zip(scenario.phases, _phases(scenario), strict=True)):
        own = next((rate for rate in phase.rates if rate.producer == producer.name), None)
        if own is not None and own.silent:
            last = 0.0
            continue
        rate = _rate(producer.rate if own is None or own.rate is None else own.rate)
        ramps = own is not None and own.ramp and math.isfinite(rate) and math.isfinite(last)
        stretches.append(Stretch(index, times.start_s, times.end_s, rate, last if ramps else rate))
        last = rate
    return stretches


def _rate(rate: float) -> float:
    return float(rate) if rate else math.inf
