"""The interface between a broker room and the demo: a backend, clients, and scenes to play.

A broker driver participates with an optional method `demo() -> BrokerDemo`. The process of a system's clients
plays a scene. The demo's own process judges it by the clients' view and the decision log.
`sluicegate.demo.kinds` has the scenes that all brokers share.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from sluicegate.broker import Extra
from sluicegate.demo.clients import DemoClient
from sluicegate.demo.course import Chart
from sluicegate.demo.topic_log import TopicLog

GATEWAY_LOG = "gateway.log"
"""What a gateway prints, beside its policy file."""


class Verdict(StrEnum):
    """Whether an observation matches the policy."""

    RIGHT = "ok"
    DIFFERENT = "DIFFERENT"
    UNSATURATED = "not saturated here"
    """The clients did not reach the limit on this machine, so there is nothing to judge."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scene's clients saw; sent between processes as JSON."""

    met: bool
    """False if the clients' view alone shows a difference from the policy."""
    text: str
    """What happened, in words and figures."""
    error: str = ""
    """The client's own error text; empty if the policy causes none."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """More data for the judge, such as when each message was sent and acknowledged."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a scene."""

    verdict: Verdict
    text: str
    error: str = ""
    chart: Chart | None = None
    """A chart, for a rate that changes over time."""


class ActionError(Exception):
    """An action of a backend failed."""


Action = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Something that a backend can do for a topic; the result is JSON."""

Judge = Callable[[Seen, TopicLog], Observation]
"""Compares the clients' view and the decision log with the policy."""


def as_seen(seen: Seen, log: TopicLog) -> Observation:
    """Judge by the clients' view alone."""
    return Observation(Verdict.RIGHT if seen.met else Verdict.DIFFERENT, seen.text, seen.error)


class Stage(Protocol):
    """The environment of a scene."""

    @property
    def topic(self) -> str:
        """The scene's own topic."""

    @property
    def directory(self) -> Path:
        """Directory of its policy file; a separate one for a scene with its own gateway."""

    @property
    def policies(self) -> Mapping[str, Any]:
        """Policies at broker level, for a scene with its own gateway."""

    @property
    def attempt(self) -> int:
        """1, or 2 when the scene is played again because it was not saturated."""

    @property
    def patience_s(self) -> float:
        """How long to wait for an expected event on a slow machine, in seconds."""

    def clients(self) -> AbstractAsyncContextManager[DemoClient]:
        """Connect a client to the gateway; its producers and consumers are closed with the block."""

    async def metric(self, name: str) -> float | None:
        """Read a metric of the gateway or of the scene's topic; None if it does not exist.

        It is up to a second old.

        :param name: its full name, such as `sluicegate_storage_throttle_factor`.
        """

    async def act(self, action: str) -> Mapping[str, Any]:
        """Run an action of the backend, such as killing a broker.

        :param action: one of `Backend.actions`, which is called with the scene's topic.
        :return: its result.
        :raises ActionError: if it fails.
        """

    def change_policy(self, settings: Mapping[str, Any]) -> None:
        """Change the settings of the scene's topic in the policy file, which the gateway watches.

        :param settings: all settings of the topic, as in `Scene.settings`.
        """


@dataclass(frozen=True, slots=True)
class OwnGateway:
    """Settings of a whole broker, which would affect all scenes of a shared gateway."""

    policies: Mapping[str, Any] = field(default_factory=dict)
    """Policies at broker level, as in the policy file."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """More keys of the broker's entry."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Shows one policy."""

    name: str
    """Short and unique within its system, such as `message-size`; the same for the same policy everywhere."""
    topic: str
    """Used by this scene alone, so that scenes can be played concurrently."""
    settings: Mapping[str, Any]
    """The topic's policies, as in the policy file."""
    expected: str
    """The behaviour that the policy requires, in words."""
    play: Callable[[Stage], Awaitable[Seen]]
    """Plays it with real clients. An error is shown and counts as different."""
    judge: Judge = as_seen
    """Called in the demo's process once the scene is over and the log is complete."""
    own: Callable[[Path], OwnGateway] | None = None
    """For scenes that need their own backend and gateway; called first, with their directory."""
    weight: int = 1
    """The load that it causes: on a slow machine fewer heavy scenes are played at once."""


def by_policy(scenes: Iterable[Scene]) -> list[str]:
    """The distinct names of scenes; scenes of one name show the same policy on several brokers."""
    return list(dict.fromkeys(scene.name for scene in scenes))


@dataclass(frozen=True, slots=True)
class Backend:
    """A broker that was started for the demo."""

    entry: Mapping[str, Any]
    """The broker's entry in the policy file, without `name`, `system` and `listen`."""
    notes: tuple[str, ...] = ()
    """Its limitations, and differences from a real broker."""
    actions: Mapping[str, Action] = field(default_factory=dict)
    """Actions for scenes (`Stage.act`), which run in its process."""
    gateway_ports: int = 1
    """How many consecutive ports its gateway needs: the listener's, then those of its nodes."""


class Front(Protocol):
    """Puts the slow disk of `first_minute` in front of a broker."""

    async def __call__(
        self, address: str, rewriting: Callable[[int], Callable[[bytes], bytes]] | None = None
    ) -> str:
        """Listen for the clients of a broker.

        :param address: the broker's, host:port.
        :param rewriting: called for each connection with the port that the disk listens on; what it returns
            changes the broker's bytes, in order.
        :return: where the disk listens, host:port.
        :raises OSError: if no port is available.
        """


@dataclass(frozen=True, slots=True)
class SharedBroker:
    """One broker that a noisy producer and its neighbour share, for `first_minute`."""

    neighbour: str
    """Topic of the neighbour, which sends little."""
    noisy: str
    """Topic of the noisy producer."""
    backend: Callable[[Front], AbstractAsyncContextManager[Backend]]
    """Starts the broker, behind the given slow disk."""
    producers: int = 1
    """Number of producers of the noisy program; more where one keeps a single message under way."""


class BrokerDemo(Protocol):
    """The demo of one kind of broker."""

    @property
    def label(self) -> str:
        """An honest description of the backend: `librdkafka mock cluster, not a Kafka broker`."""

    @property
    def client(self) -> str:
        """The client that plays the scenes, with its version."""

    @property
    def scenes(self) -> Sequence[Scene]:
        """The scenes in the order of the table."""

    @property
    def extra(self) -> Extra:
        """Required packages beyond the base installation: client library and backend."""

    @property
    def shared(self) -> SharedBroker:
        """The broker of the first minute."""

    def backend(self) -> AbstractAsyncContextManager[Backend]:
        """Start a broker on loopback, which ends with the block."""

    def clients(self, address: str) -> AbstractAsyncContextManager[DemoClient]:
        """Connect a client to the gateway at an address, host:port."""
