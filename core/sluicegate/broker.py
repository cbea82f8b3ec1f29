"""What a broker room gives to the gateway: a driver, a front for each broker, a session for each client.

A session is sans-IO: bytes in, commands out, the clock is an argument. The gateway's relay owns sockets,
timers and back-pressure and carries the commands out in order.
"""

import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Protocol, TypeAlias

from sluicegate.engine.budget import Budget
from sluicegate.engine.gates import GateCache
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import Level, PolicySet, TopicName

Buffer: TypeAlias = bytes | bytearray | memoryview
UNIQUE_FACT = "broker."
"""Begins the keys of facts (`Services.remember`) that belong to the first gateway which writes them."""


@dataclass(slots=True)
class ToUpstream:
    """Send these bytes to the broker. They must never change afterwards: the transport keeps a view."""

    data: Buffer


@dataclass(slots=True)
class ToClient:
    """Send these bytes to the client. They must never change afterwards."""

    data: Buffer


@dataclass(slots=True)
class PauseReading:
    """Stop reading from the client for a policy's sake; the transport's own back-pressure is apart."""


@dataclass(slots=True)
class ResumeReading:
    """Undo PauseReading."""


@dataclass(slots=True)
class WakeAt:
    """Call `session.wake` at this monotonic time (ns); it replaces the wake-up asked for before."""

    at_ns: int


@dataclass(slots=True)
class Ask:
    """Have the front answer this question, then call `session.answered`; reading pauses until then."""

    question: object


@dataclass(frozen=True, slots=True, eq=False)
class NextTurn:
    """A question that the gateway answers itself, in a later turn of its event loop.

    A session asks it between two slices of work that would hold the loop for too long. All other clients are
    served meanwhile, and only one session of the gateway does a slice in each turn. As with every question,
    the client is not read from until the answer, which is None; nor is its broker. What still comes from
    either the session keeps.
    """


@dataclass(slots=True)
class Close:
    """Send what is queued, then close both sides. `counter` names the reason in metrics and logs."""

    counter: str
    detail: str = ""


@dataclass(slots=True)
class Dial:
    """Connect to the first of these brokers that answers, then call `session.dialled`; reading pauses.

    Only for clients of a listener without `upstream`, and only once.
    """

    addresses: tuple[tuple[str, int], ...]
    """Host and port of each."""
    in_order: bool = False
    """The first is preferred each time, and others only replace it (`OptionalSession.stands_in`). Otherwise
    the one that answered last comes first."""


@dataclass(slots=True)
class PassOn:
    """Send what was just received on to the other side, unchanged; only in `PASS`."""


Command: TypeAlias = (
    ToUpstream | ToClient | PauseReading | ResumeReading | WakeAt | Ask | Close | Dial | PassOn
)
PASS: Final[Sequence[Command]] = (PassOn(),)
"""What `receive_client` and `receive_upstream` return, this very object, if all that came passes and nothing
else is to be done. It is the way of nearly every message, and saves it the making of a command."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that clients may connect to."""

    name: str
    """Stable name within the broker, such as `bootstrap` or `node-2`."""
    host: str
    port: int
    upstream: tuple[tuple[str, int], ...]
    """Host and port of the broker behind it; tried in turn, once the client has sent its first bytes.

    Where it is empty, the session says by `Dial` which broker its client is for, once it has read as much as
    it needs to know."""


class Session(Protocol):
    """One client connection and its upstream connection, without their sockets."""

    @property
    def held_bytes(self) -> int:
        """Bytes that the session keeps: incomplete frames, held requests and unsent responses."""

    @property
    def frame_began_ns(self) -> int:
        """When the client began a frame that it has not finished, even if its start passed unread; else 0."""

    @property
    def client(self) -> str:
        """Identifies this client in log lines."""

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the client; `PASS` if all of them go on unchanged."""

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Bytes from the broker; `PASS` if all of them go on unchanged."""

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """The time asked for by WakeAt has come; `client_gone` if the peer has hung up meanwhile."""

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """The answer to an Ask; an exception instance if the front failed."""

    def closed(self, now_ns: int) -> None:
        """Both connections are closed: release attachments, places in lines and held bytes."""


class OptionalSession(Session, Protocol):
    """Further members that a session may have; the gateway looks each of them up by its name."""

    @property
    def is_logged_in(self) -> bool:
        """True once the client's first request has arrived whole and its login, if any, was accepted.

        Sessions without it are logged in from the beginning.
        """

    @property
    def principal(self) -> str:
        """The principal of all requests; `model.ANONYMOUS` until the broker has accepted it."""

    def dialled(self, now_ns: int) -> Sequence[Command]:
        """The broker that `Dial` asked for is connected; required on listeners without `upstream`."""

    def stands_in(self) -> None:
        """Of `Dial.addresses`, `in_order`, not the first one is connected; `dialled` follows."""

    def undialled(self, reason: str, now_ns: int) -> Sequence[Command]:
        """None of the brokers that `Dial` asked for can be connected, and none will be.

        The session tells the client, then returns `Close("upstream_unreachable")`: here, or later. Without
        this method the client's connection is just closed.
        """

    @property
    def unread_bytes(self) -> int:
        """How many of the broker's next bytes pass unread; it sends nothing to the client until they have."""

    def passed(self, count: int, now_ns: int) -> Sequence[Command]:
        """So many of the unread bytes have gone to the client."""

    @property
    def open_calls(self) -> int:
        """How many requests the broker has yet to answer; a gateway that is ending waits for them."""

    def parting(self, now_ns: int) -> Iterator[None]:
        """As `closed`, and called in its place, for sessions that hold much.

        It yields where other clients may have their turn.
        """

    @property
    def reads_while_ending(self) -> bool:
        """True if bytes of the client still come, and the session answers nothing new; else none come."""

    def ending(self, now_ns: int) -> Sequence[Command]:
        """The gateway ends; called some fifty times a second from then on, until the client is closed.

        What has come in part is dropped: its client sends it again elsewhere. The last command is
        `Close("")` as soon as closing loses nothing and leaves no request in doubt.
        """


class Services(Protocol):
    """What the gateway gives to a broker front."""

    @property
    def gates(self) -> GateCache:
        """Compiled gates by topic."""

    @property
    def policies(self) -> PolicySet:
        """The policies now in force; a new object after each change."""

    @property
    def budget(self) -> Budget:
        """Bytes that all sessions of this gateway may hold together."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """What a front's own connections to the broker speak; None is plain text.

        It can be kept: new connections use what the files hold then.
        """

    def tls_for(self, section: Any) -> ssl.SSLContext:
        """What a section of the entry says, such as that of a front's own login; it can be kept, too.

        :param section: a `BrokerTls` of those that the entry's `tls_sections` gives. Its connections ask for
            its `server_name`, if it has one, whatever host they connect to.
        :raises OSError: if a file cannot be used, and none could be before.
        """

    def wall_ms(self, now_ns: int) -> int:
        """Wall-clock milliseconds since 1970 at a monotonic time; never ahead of the machine's clock."""

    async def listen(self, listener: Listener) -> None:
        """Open a listener; returns once it accepts. Opening the same one again does nothing."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Have work of the front done in the background; what it raises is logged, and stopping ends it."""

    def remember(self, key: str, value: str) -> None:
        """Keep a small fact, such as a broker's node address, over restarts."""

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix."""


class BrokerFront(Protocol):
    """One broker (or cluster) that the gateway stands in front of."""

    async def start(self, services: Services) -> None:
        """Open the listeners known so far; an upstream that is down is no error."""

    def session(self, listener: Listener, peer: str, now_ns: int) -> Session:
        """A session for a client that connected to `listener` from `peer` (host:port)."""

    async def answer(self, question: object) -> object:
        """Answer a session's Ask; raises if it cannot."""

    def tick(self, now_ns: int) -> None:
        """Once a second: release what has been idle too long."""

    def counters(self) -> Mapping[str, int]:
        """Event counters of this front, by name without prefix; published with a `broker` label."""

    async def stop(self) -> None:
        """Close the front's own connections."""


class ReachingFront(BrokerFront, Protocol):
    """A front that takes part in finding out whether its broker can be reached."""

    @property
    def greeting(self) -> bytes:
        """Bytes that a broker answers at once, to any sender.

        A broker that accepts connections and leaves the greeting unanswered counts as not reachable. Without
        a greeting, a connection (and TLS, if the entry has it) is proof enough.
        """

    def reached(self) -> None:
        """The broker answers, for the first time or again: a front asks here what it has to ask."""


class PolicyRefusedError(Exception):
    """A policy cannot be set as asked: it is unknown, or its value does not fit."""


class PolicyUnavailableError(Exception):
    """A policy cannot be set now, since the store cannot be written."""


class WebServices(Protocol):
    """What the gateway gives to a broker's web site, which runs in the supervisor, off the relays' loops."""

    @property
    def resolver(self) -> Resolver:
        """The policies now in force, file and store merged; a new object after each change."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """What to speak with the broker where it speaks TLS; None if the file does not say."""

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts that the broker's front keeps under a prefix."""

    async def change(self, level: Level, name: str, changes: Mapping[str, object], actor: str) -> None:
        """Set policies in the store; returns once they are in force here and on their way to the workers.

        :param name: namespace or topic.
        :param changes: values by field, in base units or with units; None removes a field.
        :param actor: the author, for the history.
        :raises PolicyRefusedError: if a value does not fit; nothing is changed then.
        :raises PolicyUnavailableError: if the store cannot be written.
        """


Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class WebSite(Protocol):
    """An ASGI application (HTTP only) that a broker's driver offers beside the broker's own protocol."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on; port 0 takes a free one. It speaks TLS if the broker's clients do."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

    async def close(self) -> None:
        """Close its own connections."""


@dataclass(frozen=True, slots=True)
class Extra:
    """What a driver needs to run that the base installation does not bring.

    A driver names it in its attribute `extra`. The gateway leaves out a driver whose modules are missing; a
    driver must therefore be importable without them.
    """

    name: str
    """What to install, as pip takes it: `sluicegate[danube]`."""
    modules: Mapping[str, str]
    """The modules that a gate imports, each with the distribution that brings it."""

    def missing(self) -> list[str]:
        """The distributions that are not installed."""
        return [name for module, name in self.modules.items() if not _is_installed(module)]

    @property
    def remedy(self) -> str:
        """The command that installs them."""
        return f"pip install {self.name!r}"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it lies in
        return False


class BrokerDriver(Protocol):
    """A kind of broker, as returned by the hook `sluicegate_broker`."""

    @property
    def system(self) -> str:
        """The value of `system:` in the file, such as `kafka`."""

    @property
    def config_model(self) -> type[Any]:
        """Pydantic model of the entry under `brokers:`, a subclass of sluicegate.config.BrokerConfig."""

    def name_of(self, topic: str, config: Any) -> TopicName:
        """What a topic's name says: its namespace, and the other names that policies may use for it."""

    def front(self, config: Any) -> BrokerFront:
        """A front for one configured broker."""


class OptionalDriver(BrokerDriver, Protocol):
    """Further members that a driver may have; the gateway looks each of them up by its name."""

    @property
    def extra(self) -> Extra:
        """What the driver needs beyond the base installation."""

    @property
    def capabilities(self) -> Mapping[str, str]:
        """How it supports each policy: native, emulated or not applicable."""

    @property
    def client_loggers(self) -> Sequence[str]:
        """Loggers of a client library. The room logs failures itself, so the log leaves their lines out."""

    def web(self, config: Any, services: WebServices) -> WebSite | None:
        """The web site of one configured broker; None if its entry asks for none."""
