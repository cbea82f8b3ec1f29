"""Builds and parses the paths of a Danube cluster's metadata.

Paths are exactly Danube's. Who writes them:

- A broker writes its registration (on a lease), its load, its state, and what is below `/topics` and
  `/namespaces`. For a topic that it creates it writes the topic's unassigned entry, never an assignment.
- The holder of the leader key alone writes assignments. It deletes the unassigned entry in the same
  transaction.
- A broker serves a topic while the topic's assignment to it exists.

Values are JSON. Registration: an object with `broker_addr`, `advertised_addr` and `admin_addr`, or only the
broker's address. State: `{"mode": "active"}`; any other mode takes no new topics. Load: an object with
`topics_len`, `topic_list`, and `resources_usage`, such as `[{"resource": "CPU", "usage": 12.5}]` in percent.
Leader: the leader's id, a number. Assignment: null. Unassigned entry: null, or
`{"reason": "unload", "from_broker": 1}`, or `{"reason": "rebalance", "from_broker": 1, "to_broker": 2}`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

CLUSTER = "/cluster/"
REGISTRATIONS = "/cluster/register/"
BROKERS = "/cluster/brokers/"
UNASSIGNED = "/cluster/unassigned/"
LOADS = "/cluster/load/"
LEADER = "/cluster/leader"
TOPICS = "/topics/"
NAMESPACES = "/namespaces/"
DURABLE = (TOPICS, NAMESPACES)
"""What failover must never change."""
CONTROLLERS = "/sluicegate/failover/controllers/"
"""Failover controllers by id, each on its own lease. Danube does not know these keys."""
FOREIGN_WRITER = "/sluicegate/failover/foreign_writer"
"""What another load manager was last seen to write."""

EMPTY = b"null"
"""The value of an entry that says nothing but its key."""
MAX_BROKER = 2**64 - 1

_TOPIC = re.compile(r"/[^/]+/[^/]+")


@dataclass(frozen=True, slots=True)
class Registration:
    """`/cluster/register/{broker}`: the broker is alive."""

    broker: int


@dataclass(frozen=True, slots=True)
class State:
    """`/cluster/brokers/{broker}/state`: whether a broker takes topics."""

    broker: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """`/cluster/brokers/{broker}/{namespace}/{topic}`: the broker owns the topic."""

    broker: int
    topic: str
    """As clients name it: `/namespace/topic`."""


@dataclass(frozen=True, slots=True)
class Unassigned:
    """`/cluster/unassigned/{namespace}/{topic}`: the topic waits for an owner."""

    topic: str


@dataclass(frozen=True, slots=True)
class Load:
    """`/cluster/load/{broker}`: a broker's load report."""

    broker: int


@dataclass(frozen=True, slots=True)
class Leader:
    """`/cluster/leader`: whose load manager acts."""


@dataclass(frozen=True, slots=True)
class Controller:
    """`/sluicegate/failover/controllers/{id}`: a failover controller that is alive."""

    controller: int


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """`/topics/{namespace}/{topic}` and what is below it."""

    topic: str
    part: str
    """Such as `policy`, `schema`, `producers/7`, `subscriptions/s1`; empty for the topic itself."""


@dataclass(frozen=True, slots=True)
class NamespaceEntry:
    """`/namespaces/{namespace}` and what is below it."""

    namespace: str
    part: str
    """`policy`, or `topics/{namespace}/{topic}`; empty for the namespace itself."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A key that failover has no use for: the cluster's name, the load manager's last decision."""

    key: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """A key of no known shape. It is reported, and left alone."""

    key: str
    problem: str


Key: TypeAlias = (
    Registration
    | State
    | Assignment
    | Unassigned
    | Load
    | Leader
    | Controller
    | TopicEntry
    | NamespaceEntry
    | Ignored
    | Unknown
)
_SHAPES: tuple[tuple[str, Callable[..., Key]], ...] = (
    ("/cluster/brokers/{broker}/{namespace}/{topic}", Assignment),
    ("/cluster/brokers/{broker}/state", State),
    ("/cluster/unassigned/{namespace}/{topic}", Unassigned),
    ("/cluster/register/{broker}", Registration),
    ("/cluster/load/{broker}", Load),
    (LEADER, Leader),
    ("/cluster/{name}", lambda name: Ignored(CLUSTER + name)),
    ("/topics/{namespace}/{topic}/{part}", TopicEntry),
    ("/namespaces/{name}/{part}", NamespaceEntry),
    ("/sluicegate/failover/controllers/{broker}", Controller),
)
_FIELDS = {
    "{broker}": r"(?P<broker>0|[1-9][0-9]{0,19})",
    "/{namespace}/{topic}": r"(?P<topic>/[^/]+/[^/]+)",
    "{name}": r"(?P<name>[^/]+)",
    "/{part}": r"(?:/(?P<part>.+))?",
}


def _pattern(shape: str) -> re.Pattern[str]:
    for field, pattern in _FIELDS.items():
        shape = shape.replace(field, pattern)
    return re.compile(shape, re.DOTALL)


_PATTERNS = [(_pattern(shape), kind) for shape, kind in _SHAPES]


def registration_key(broker: int) -> str:
    """Where a broker registers."""
    return f"{REGISTRATIONS}{broker}"


def state_key(broker: int) -> str:
    """Where a broker's state is."""
    return f"{BROKERS}{broker}/state"


def assignments_prefix(broker: int) -> str:
    """What all of a broker's assignments begin with; its state does, too."""
    return f"{BROKERS}{broker}/"


def assignment_key(broker: int, topic: str) -> str:
    """Where a topic is assigned to a broker.

    :param topic: `/namespace/topic`.
    """
    return f"{BROKERS}{broker}{_checked(topic)}"


def unassigned_key(topic: str) -> str:
    """Where a topic waits for an owner."""
    return f"{UNASSIGNED[:-1]}{_checked(topic)}"


def load_key(broker: int) -> str:
    """Where a broker reports its load."""
    return f"{LOADS}{broker}"


def controller_key(controller: int) -> str:
    """Where a failover controller registers."""
    return f"{CONTROLLERS}{controller}"


def topic_key(topic: str, part: str = "") -> str:
    """Where a topic's own metadata is.

    :param part: such as `policy`; empty for the topic itself.
    """
    return f"{TOPICS[:-1]}{_checked(topic)}{'/' if part else ''}{part}"


def namespace_key(namespace: str, part: str = "") -> str:
    """Where a namespace's metadata is."""
    return f"{NAMESPACES}{namespace}{'/' if part else ''}{part}"


def namespace_topic_key(topic: str) -> str:
    """Where a namespace lists a topic."""
    return f"{NAMESPACES}{_checked(topic).split('/')[1]}/topics{topic}"


def parse(key: str) -> Key:
    """What a key stands for. No key is an error: one of no known shape is `Unknown`."""
    for pattern, kind in _PATTERNS:
        match = pattern.fullmatch(key)
        if match is not None and int(match.groupdict().get("broker") or 0) <= MAX_BROKER:
            named = match.groupdict(default="").items()
            return kind(*(int(value) if name == "broker" else value for name, value in named))
    shapes = [shape for shape, _ in _SHAPES if key.startswith(_prefix(shape))]
    closest = max(shapes, key=lambda shape: len(_prefix(shape)), default="a key of a Danube cluster")
    return Unknown(key, f"expected {closest}")


def _prefix(shape: str) -> str:
    return shape.partition("{")[0]


def _checked(topic: str) -> str:
    if not _TOPIC.fullmatch(topic):
        raise ValueError(f"expected /namespace/topic, got {topic!r}")
    return topic
