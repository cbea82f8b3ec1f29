"""What the suite asks of a broker room: its doors, and clients that go through them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sluicegate.engine.state import TopicState
from sluicegate.model import Level, PolicyLayer, PolicySet, Setting, Source
from sluicegate.runtime.client_policies import for_client
from sluicegate.testing.conformance.scenarios import Ability
from sluicegate.testing.sink import RecordingSink

NOT_APPLICABLE = "not applicable"


class RefusedByDoor(Exception):  # noqa: N818 - it is no error of the door
    """The client was told that its operation is refused.

    :param text: what the client's library tells the application.
    """

    @property
    def text(self) -> str:
        """What the application was told."""
        return str(self)


class Sample(NamedTuple):
    """A message to publish."""

    value: bytes
    headers: Mapping[str, bytes]
    key: bytes | None
    schema: str
    """Id or version of its schema; empty for none."""
    delay_ms: int
    """The delivery delay to ask for; 0 for none."""
    compressed: bool


class Received(NamedTuple):
    """A message as the application gets it."""

    value: bytes
    headers: Mapping[str, bytes]
    """Empty if the door cannot show them."""
    raw: Any = None
    """What the door needs to acknowledge it."""


class Producer(Protocol):
    """One producer."""

    async def publish(self, message: Sample) -> None:
        """Publish a message, and return once it is accepted, however long it is held.

        :raises RefusedByDoor: if it is refused.
        """

    async def close(self) -> None:
        """Leave."""


class Consumer(Protocol):
    """One consumer."""

    async def receive(self, within_s: float) -> Received | None:
        """The next message; None if none comes in time, in seconds."""

    async def acknowledge(self, message: Received) -> None:
        """Acknowledge one message."""

    async def close(self) -> None:
        """Leave."""


class Door(Protocol):
    """One opened way to a broker, with policies in force.

    A library that blocks runs in threads. Clients at the defaults of their library, but for what a scenario
    could not be told by: none retries what was refused.
    """

    sink: RecordingSink
    """Every decision."""
    file: Path
    """The policy file, with which the decisions are replayed."""
    tells_reasons: bool
    """Whether the library tells the application the text of a refusal, which ends with the decision's id."""

    def state(self, topic: str) -> TopicState:
        """What the engine keeps of a topic.

        :raises KeyError: if nobody has used it yet.
        """

    async def producer(self, topic: str, name: str, principal: str) -> Producer:
        """Make a producer; it may attach now or with its first message.

        :param topic: its full name.
        :param name: the client's name, as the broker sees it.
        :param principal: whom it logs in as; empty for anonymous.
        :raises RefusedByDoor: if it is refused.
        """

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> Consumer:
        """Attach a consumer; it gets what is published from then on.

        :raises RefusedByDoor: if it is refused.
        """

    async def create_topic(self, topic: str, partitions: int, name: str, principal: str) -> None:
        """Create a topic; asked only of a door with that ability. Other parameters as for `producer`.

        :raises RefusedByDoor: if it is refused.
        """
        text = f"{type(self).__name__} creates no topics"
        raise NotImplementedError(text)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a door is opened with."""

    directory: Path
    """An empty one of its own."""
    policies: Mapping[str, Any]
    """The `policies:` of its policy file."""
    entry: Mapping[str, Any]
    """More of the broker's entry in that file."""
    topics: tuple[str, ...]
    """Full names of the topics that are used; the door creates them, each with one partition."""


OpenDoor = Callable[[Setup], AbstractAsyncContextManager[Door]]


@dataclass(frozen=True, slots=True)
class DoorKind:
    """One kind of door that a system has."""

    open: OpenDoor
    """Opens one with a broker behind it, which may be shared with others."""
    abilities: frozenset[Ability] = frozenset()
    without: Mapping[str, str] = field(default_factory=dict)
    """Policies that do not apply here though the system has them, each with the reason."""
    unplayed: Mapping[str, str] = field(default_factory=dict)
    """Scenarios that apply and cannot be played with this broker and this library, each with the reason and
    what shows it instead."""


def without_in_clients(system: str, capabilities: Mapping[str, str]) -> Mapping[str, str]:
    """The policies of a system that do not apply in the processes of its clients, each with the reason.

    :param capabilities: how its broker driver supports each policy.
    """
    settings = dict.fromkeys(capabilities, Setting(1, Source.FILE, ""))
    every = PolicySet(1, (PolicyLayer(Level.BROKER, "", settings),))
    return for_client(every, system, capabilities).not_enforced


@dataclass(frozen=True, slots=True)
class Driver:
    """A system with its doors: what `pytest --sluicegate-driver` names.

    :param system: as in `brokers: [{system: …}]`.
    :param capabilities: how its broker driver supports each policy; see `BaseDriver.capabilities`.
    :param doors: by name.
    :param topic: gives the full name of a topic by a short one of letters, digits and hyphens.
    """

    system: str
    capabilities: Mapping[str, str]
    doors: Mapping[str, DoorKind]
    topic: Callable[[str], str] = str

    def how(self, policy: str, door: str) -> str:
        """How a policy applies at a door: `native`, `emulated` or `not applicable`."""
        if policy in self.doors[door].without:
            return NOT_APPLICABLE
        return self.capabilities.get(policy, NOT_APPLICABLE)
