"""What a broker room gives to the demo: a backend to stand in front of, clients, and scenes to play.

A broker driver takes part by an optional method `demo() -> BrokerDemo`; one without it is not shown. The
process of a system's clients plays a scene. The demo's own process judges it, by what the clients saw and by
the decision log. `sluicegate.demo.kinds` has the scenes that all brokers share.
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


class Verdict(StrEnum):
    """What an observation says of a policy."""

    RIGHT = "ok"
    DIFFERENT = "DIFFERENT"
    UNSATURATED = "not saturated here"
    """The clients never came up to the limit on this machine, so it was neither kept nor broken."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a scene's clients saw; it crosses a process boundary as JSON."""

    met: bool
    """False if what clients saw is already different from what the policy says."""
    text: str
    """What happened, in words and figures."""
    error: str = ""
    """The client's own error, as the client words it; empty where a policy gives none."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the judge needs besides, such as when each message was sent and acknowledged."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of a scene."""

    verdict: Verdict
    text: str
    error: str = ""
    chart: Chart | None = None
    """What is drawn of it, where a rate changes over time."""


class ActionError(Exception):
    """A backend could not do what a scene asked for."""


Action = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Something that a backend can do for a topic; what it gives is JSON."""

Judge = Callable[[Seen, TopicLog], Observation]
"""Holds what clients saw and what the gate's log says against the policy."""


def as_seen(seen: Seen, log: TopicLog) -> Observation:
    """Judge by what clients saw alone: for what is answered yes or no."""
    return Observation(Verdict.RIGHT if seen.met else Verdict.DIFFERENT, seen.text, seen.error)


class Stage(Protocol):
    """What a scene finds when it is played."""

    @property
    def topic(self) -> str:
        """The scene's own topic."""

    @property
    def directory(self) -> Path:
        """Of its policy file; a folder of its own for a scene with a gateway of its own."""

    @property
    def policies(self) -> Mapping[str, Any]:
        """What a scene with a gateway of its own sets for the whole broker."""

    @property
    def attempt(self) -> int:
        """1, or 2 when the scene is played again because it was not saturated."""

    @property
    def patience_s(self) -> float:
        """How long to wait for what has to come, on however slow a machine; in seconds."""

    def clients(self) -> AbstractAsyncContextManager[DemoClient]:
        """A client of the gateway; all that it made is closed with the block."""

    async def metric(self, name: str) -> float | None:
        """A metric of the gateway, without a topic or with the scene's; None if it is not there.

        It is up to a second old.

        :param name: its whole name, such as `sluicegate_storage_throttle_factor`.
        """

    async def act(self, action: str) -> Mapping[str, Any]:
        """Have the backend do something, such as let a broker die.

        :param action: one of `Backend.actions`, which is called with the scene's topic.
        :return: what it gives.
        :raises ActionError: if it cannot be done.
        """

    def change_policy(self, settings: Mapping[str, Any]) -> None:
        """Have other settings for the scene's topic written into the policy file, which the gateway watches.

        :param settings: all settings of the topic, as in `Scene.settings`.
        """


@dataclass(frozen=True, slots=True)
class OwnGate:
    """What holds for a whole broker, and so would for all scenes behind one gate."""

    policies: Mapping[str, Any] = field(default_factory=dict)
    """Policies of the broker's level, as the policy file has them."""
    entry: Mapping[str, Any] = field(default_factory=dict)
    """More of what `brokers:` says."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One policy, shown."""

    name: str
    """Short and unique within its system, such as `message-size`; the same for the same policy everywhere."""
    topic: str
    """Used by this scene alone, so that scenes can be played side by side."""
    settings: Mapping[str, Any]
    """The topic's policies, as the policy file has them."""
    expected: str
    """What the policy says will happen, in words."""
    play: Callable[[Stage], Awaitable[Seen]]
    """Plays it with real clients. What it raises is shown, and counts as different."""
    judge: Judge = as_seen
    """Called in the demo's process once the scene is over and the log has all of it."""
    own: Callable[[Path], OwnGate] | None = None
    """For scenes that need a backend and a gate to themselves; called with their folder first."""
    weight: int = 1
    """How much it asks of the machine: on a slow one fewer heavy scenes are played at once."""


def by_policy(scenes: Iterable[Scene]) -> list[str]:
    """The names of scenes, each once: those of one name show the same policy on several brokers."""
    return list(dict.fromkeys(scene.name for scene in scenes))


@dataclass(frozen=True, slots=True)
class Backend:
    """A broker that was started for the demo."""

    entry: Mapping[str, Any]
    """What `brokers:` says of a gate in front of it, without `name` and `system`; its ports are free."""
    notes: tuple[str, ...] = ()
    """What it cannot show, and what is different from a real broker."""
    actions: Mapping[str, Action] = field(default_factory=dict)
    """What scenes can have done to it (`Stage.act`); they stay in its process."""


class BrokerDemo(Protocol):
    """How one kind of broker is shown."""

    @property
    def label(self) -> str:
        """What the backend is, said honestly: `librdkafka mock cluster, not a Kafka broker`."""

    @property
    def client(self) -> str:
        """The client that plays the scenes, with its version."""

    @property
    def scenes(self) -> Sequence[Scene]:
        """What is shown, in the order of the table."""

    @property
    def extra(self) -> Extra:
        """What the demo needs that the base installation does not bring: client library and backend."""

    def backend(self) -> AbstractAsyncContextManager[Backend]:
        """Start a broker on loopback, in a process of its own; it ends with the block."""

    def clients(self, address: str) -> AbstractAsyncContextManager[DemoClient]:
        """A client of the gateway at an address, host:port."""
