"""The scenario file: topics, clients, phases, policies, and where the systems are."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from sluicegate.config.models import Strict
from sluicegate.config.units import Count, Delay, Duration, HostPort, MessageRate, Size
from sluicegate_reports.registry.kinds import KINDS

SYSTEMS = tuple(KINDS)
"""The kinds of broker that scenarios are played against unless others are asked for."""
HEADER_BYTES = 20
"""Bytes of the stamp in front of each payload: sender, number, time."""

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9](?:-?[a-z0-9]){0,39}$")]
"""Lower-case letters, digits and single dashes: what all systems take in names of topics and clients."""


class Topic(Strict):
    """One topic; each arm has its own, of the same name with a suffix."""

    name: Name
    """Name, by which producers, consumers and policies refer to it."""
    namespace: Name = "default"
    """Namespace that it is in."""
    partitions: Annotated[int, Field(ge=1, le=100, strict=True)] = 1
    """Partitions. Kafka only: elsewhere topics have one."""


class Client(Strict):
    """One or several alike clients."""

    name: Name
    """Name of the client; with `count` its number is added."""
    count: Annotated[Count, Field(ge=1, le=200)] = 1
    """How many of them."""
    start: Duration = 0
    """When it attaches, from the beginning of the run."""
    stop: Duration | None = None
    """When it leaves; at the end if unset."""
    retry: Duration = 0
    """How long it waits before it tries to attach again; 0: it does not."""


class Producer(Client):
    """One or several alike producers."""

    topic: Name
    """Topic that it publishes to."""
    rate: MessageRate = 100
    """Messages per second of each of them; 0 for as fast as they are acknowledged."""
    size: Annotated[Size, Field(ge=HEADER_BYTES, le=64 * 2**20)] = 512
    """Bytes of each payload, of which the runner takes the first 20."""
    delay: Delay = 0
    """Delivery delay that it asks for. Only Pulsar's clients can ask for one."""
    in_flight: Annotated[Count, Field(ge=1, le=10_000)] = 100
    """Messages that may wait for their acknowledgement at once."""


class Consumer(Client):
    """One or several alike consumers."""

    topic: Name
    """Topic that it reads."""
    subscription: Name = "readers"
    """Subscription (Kafka: group) that it joins; with `each` its number is added."""
    each: bool = Field(default=False, strict=True)
    """Whether each of several has a subscription of its own."""
    kind: Literal["shared", "exclusive", "failover"] = "shared"
    """Kind of subscription. Kafka has groups only."""
    acknowledge: bool = Field(default=True, strict=True)
    """False takes messages and acknowledges none."""
    acknowledge_after: Duration = 0
    """How long it keeps a message before it acknowledges it. Not on Kafka."""


class PhaseRate(Strict):
    """What one producer does in one phase."""

    producer: Name
    """Name of the producer."""
    rate: MessageRate | None = None
    """Its rate in this phase, 0 for as fast as it can; its own if unset."""
    silent: bool = Field(default=False, strict=True)
    """True: it sends nothing in this phase."""
    ramp: bool = Field(default=False, strict=True)
    """Whether the rate changes linearly from the last one."""


class Phase(Strict):
    """A stretch of the run."""

    name: Name
    """Name of the phase in the report."""
    duration: Annotated[Duration, Field(gt=0, le=3_600_000)]
    """How long it takes."""
    rates: tuple[PhaseRate, ...] = ()
    """Producers that act differently in this phase."""


class Endpoints(Strict):
    """Where a system is."""

    bootstrap: tuple[HostPort, ...] = Field(min_length=1)
    """Brokers, host:port."""


class AdministeredEndpoints(Endpoints):
    """Where a system with an admin API is."""

    admin: str | None = Field(default=None, pattern=r"^https?://[^/\s]+/?$")
    """Address of its admin API, http://host:8080; without it Pulsar has no native arm."""


class Systems(Strict):
    """Where the systems are; the runner starts those that are left out."""

    kafka: Endpoints | None = None
    """A Kafka that runs."""
    pulsar: AdministeredEndpoints | None = None
    """A Pulsar that runs."""
    danube: AdministeredEndpoints | None = None
    """A Danube that runs."""


class Scenario(Strict):
    """A scenario file; its `policies:` are added when the plugins are known (see `loading`)."""

    name: Name
    """Name of the scenario."""
    title: str = Field(default="", max_length=200)
    """What it shows, in a sentence."""
    systems: Systems = Systems()
    """Where the systems are."""
    topics: tuple[Topic, ...] = Field(min_length=1)
    """Topics."""
    producers: tuple[Producer, ...] = Field(min_length=1)
    """Who publishes."""
    consumers: tuple[Consumer, ...] = ()
    """Who reads."""
    phases: tuple[Phase, ...] = Field(min_length=1, max_length=100)
    """What is done, in turn."""
    drain: Annotated[Duration, Field(le=3_600_000)] = 2_000
    """How long answers and deliveries are waited for at the end; longer than any delay. While messages still
    arrive, it is extended by up to ten times its length."""
    max_hold: Annotated[Duration, Field(gt=0)] = 5_000
    """Longest time that the gates hold a request."""

    @property
    def duration_ms(self) -> int:
        """All phases together."""
        return sum(phase.duration for phase in self.phases)
