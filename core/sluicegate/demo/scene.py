"""What a broker room gives to the demo: a backend to stand in front of, and scenes to play there.

A broker driver takes part by an optional method `demo() -> BrokerDemo`; one without it is not shown.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sluicegate.demo.course import Chart


@dataclass(frozen=True, slots=True)
class Observation:
    """What a scene's clients saw."""

    met: bool
    """True if it is what the policy says."""
    text: str
    """What happened, in words and figures."""
    error: str = ""
    """The client's own error, as the client words it; empty where a policy gives none."""
    chart: Chart | None = None
    """What is drawn of it, where a rate changes over time."""


class Stage(Protocol):
    """What a scene finds when it is played."""

    @property
    def address(self) -> str:
        """Where clients connect: host:port of the gate."""

    @property
    def topic(self) -> str:
        """The scene's own topic."""

    @property
    def directory(self) -> Path:
        """Of its policy file; a folder of its own for a scene with a gate of its own."""

    @property
    def policies(self) -> Mapping[str, Any]:
        """What a scene with a gate of its own sets for the whole broker."""

    def metric(self, name: str) -> float | None:
        """A metric of a plugin in the gate, without a label or that of the scene's topic; None if not there.

        :param name: its whole name, such as `sluicegate_storage_throttle_factor`.
        """

    async def change_policy(self, settings: Mapping[str, Any]) -> None:
        """Write other settings for the scene's topic into the policy file and put the file into force.

        :param settings: all settings of the topic, as in `Scene.settings`.
        """

    async def decisions(self, action: str, within_s: float = 5.0) -> Sequence[Mapping[str, Any]]:
        """Decisions on the scene's topic, as plugins see them; waits until there is one.

        :param action: as in the decision log, such as `would_reject`.
        :param within_s: how long to wait for the first one, in seconds.
        :return: rows as in the decision schema; empty if none came in time.
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
    play: Callable[[Stage], Awaitable[Observation]]
    """Plays it with a real client. What it raises is shown, and counts as not met."""
    own: Callable[[Path], OwnGate] | None = None
    """For scenes that need a backend and a gate to themselves; called with their folder first."""


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


class BrokerDemo(Protocol):
    """How one kind of broker is shown."""

    @property
    def label(self) -> str:
        """What the backend is, said honestly: `librdkafka mock cluster, not a Kafka broker`."""

    @property
    def client(self) -> str:
        """The client that plays the scenes, with its version."""

    @property
    def client_loggers(self) -> Sequence[str]:
        """Names of the loggers that the client writes to; their lines go to a file."""

    @property
    def scenes(self) -> Sequence[Scene]:
        """What is shown, in the order of the table."""

    def missing(self) -> str:
        """What is not installed, with the remedy; empty if the demo can run."""

    def backend(self) -> AbstractAsyncContextManager[Backend]:
        """Start a broker on loopback; it ends with the block."""
