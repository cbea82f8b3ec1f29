"""What a broker room implements for the gateway: a driver, a front per broker, a session per client.

A session is sans-IO: it takes bytes and the time, and returns commands. The gateway's relay owns sockets,
timers and back-pressure, and executes the commands in order.
"""

import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Protocol, TypeAlias

from sluicegate.engine.budget import Budget
from sluicegate.engine.gates import GateCache
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import CloseReason, Level, PolicySet, TopicName
from sluicegate.own_settings import BrokerTlsFiles, OwnSettings

Buffer: TypeAlias = bytes | bytearray | memoryview
UNIQUE_FACT = "broker."
"""Key prefix of facts (`Services.remember`) that belong to the first gateway that writes them."""


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
    """Stop reading from the client because of a policy; independent of the transport's back-pressure."""


@dataclass(slots=True)
class ResumeReading:
    """Undo PauseReading."""


@dataclass(slots=True)
class WakeAt:
    """Call `session.wake` at this monotonic time (ns); replaces the previous `WakeAt`."""

    at_ns: int


@dataclass(slots=True)
class Ask:
    """Have the front answer this question, then call `session.answered`; reading pauses until then."""

    question: object


@dataclass(frozen=True, slots=True, eq=False)
class NextTurn:
    """A question that the gateway answers itself, in a later turn of its event loop.

    A session asks it between two slices of work that together would block the loop for too long. Meanwhile
    all other clients are served, and only one session of the gateway runs a slice per turn. Reading from the
    client and from its broker pauses until the answer, which is None; the session buffers what still arrives.
    """


@dataclass(slots=True)
class Close:
    """Send what is queued, then close both sides.

    `counter` is the reason in metrics and logs; None for an end that needs no mention.
    """

    counter: CloseReason | None = None
    detail: str = ""


@dataclass(slots=True)
class Dial:
    """Connect to the first of these brokers that answers, then call `session.dialled`; reading pauses.

    Only for clients of a listener without `upstream`, and only once.
    """

    addresses: tuple[tuple[str, int], ...]
    """Host and port of each."""
    in_order: bool = False
    """Whether to try the first one first each time, the others being replacements
    (`OptionalSession.stands_in`). Otherwise the one that answered last is tried first."""


@dataclass(slots=True)
class PassOn:
    """Forward what was just received to the other side, unchanged; only in `PASS`."""


Command: TypeAlias = (
    ToUpstream | ToClient | PauseReading | ResumeReading | WakeAt | Ask | Close | Dial | PassOn
)
PASS: Final[Sequence[Command]] = (PassOn(),)
"""What `receive_client` and `receive_upstream` return if everything received is forwarded and nothing else is
to be done; compared by identity. Nearly every message takes this path, which creates no command."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One address that clients may connect to."""

    name: str
    """Stable name within the broker, such as `bootstrap` or `node-2`."""
    host: str
    port: int
    upstream: tuple[tuple[str, int], ...]
    """Host and port of the broker behind it; tried in turn, once the client has sent its first bytes.

    If empty, the session chooses the broker by `Dial`, once it has read enough from the client."""


class Session(Protocol):
    """One client connection and its upstream connection, without their sockets."""

    @property
    def held_bytes(self) -> int:
        """Bytes that the session buffers: incomplete frames, held requests and unsent responses."""

    @property
    def frame_began_ns(self) -> int:
        """When the current incomplete frame of the client began, even if its start was forwarded; else 0."""

    @property
    def client(self) -> str:
        """Identifies this client in log lines."""

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Handle bytes from the client; `PASS` if all of them are forwarded unchanged."""

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Handle bytes from the broker; `PASS` if all of them are forwarded unchanged."""

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """The time of the last `WakeAt` has come; `client_gone` if the peer has disconnected meanwhile."""

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """Handle the answer to an `Ask`: an exception instance if the front failed."""

    def closed(self, now_ns: int) -> None:
        """Both connections are closed: release attachments, places in queues and held bytes."""


class OptionalSession(Session, Protocol):
    """Further members that a session may have; the gateway looks each of them up by its name."""

    @property
    def is_logged_in(self) -> bool:
        """True once the client's first request is complete and its login, if any, was accepted.

        Sessions without it are logged in from the beginning.
        """

    @property
    def principal(self) -> str:
        """The principal of all requests; `model.ANONYMOUS` until the broker has accepted it."""

    def dialled(self, now_ns: int) -> Sequence[Command]:
        """The broker that `Dial` asked for is connected; required on listeners without `upstream`."""

    def stands_in(self) -> None:
        """An `in_order` `Dial` connected to another broker than the first; `dialled` follows."""

    def undialled(self, reason: str, now_ns: int) -> Sequence[Command]:
        """None of the brokers of `Dial` can be reached; the gateway does not try again.

        The session informs the client and returns `Close("upstream_unreachable")`, now or later. Without this
        method the gateway only closes the client's connection.
        """

    @property
    def places_bytes(self) -> int:
        """About how much memory its places take, such as those on topics; no budget counts it.

        It decides only whom the gateway closes once its memory is short.
        """

    @property
    def unread_bytes(self) -> int:
        """How many of the broker's next bytes bypass the session, which sends nothing meanwhile."""

    def passed(self, count: int, now_ns: int) -> Sequence[Command]:
        """`count` of the unread bytes were sent to the client."""

    @property
    def open_calls(self) -> int:
        """How many requests the broker has not answered yet; a gateway that shuts down waits for them."""

    def parting(self, now_ns: int) -> Iterator[None]:
        """Do the same as `closed`, in slices; called instead of it, for sessions that hold much.

        It yields wherever other clients may be served.
        """

    @property
    def reads_while_ending(self) -> bool:
        """Whether to read from the client during shutdown; the session then answers no new requests."""

    def ending(self, now_ns: int) -> Sequence[Command]:
        """The gateway shuts down; called about 50 times a second until the client is closed.

        The session drops an incomplete request: the client repeats it elsewhere. The last command is
        `Close("")` as soon as closing loses no data and leaves no request with unknown outcome.
        """


class Services(Protocol):
    """What the gateway offers a broker front."""

    @property
    def gates(self) -> GateCache:
        """Compiled gates by topic."""

    @property
    def policies(self) -> PolicySet:
        """The policies now in force; a new object after each change."""

    @property
    def budget(self) -> Budget:
        """Limits the bytes that all sessions of this gateway hold together."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """TLS of a front's own connections to the broker; None for plain text.

        It can be kept: each new connection uses the current content of the files.
        """

    def tls_for(self, section: Any) -> ssl.SSLContext:
        """TLS as a section of the entry configures it, such as that of a front's own login; can be kept, too.

        :param section: a `BrokerTls`, one of the entry's `tls_sections`. If it has a `server_name`, its
            connections use that name instead of the host's.
        :raises OSError: if a file cannot be used, and none could be before.
        """

    def wall_ms(self, now_ns: int) -> int:
        """Wall-clock milliseconds since 1970 at a monotonic time; never ahead of the machine's clock."""

    async def listen(self, listener: Listener) -> None:
        """Open a listener and wait until it accepts. Opening the same one again has no effect."""

    def stop_listening(self, name: str) -> None:
        """Close the listener of this name, if there is one; its clients stay connected."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work of the front in the background; errors are logged, and shutdown cancels it."""

    def remember(self, key: str, value: str) -> None:
        """Keep a small fact, such as a broker's node address, across restarts; an empty value forgets it."""

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix."""


class BrokerFront(Protocol):
    """One broker (or cluster) behind the gateway."""

    async def start(self, services: Services) -> None:
        """Open the listeners known so far; an unreachable broker is not an error."""

    def session(self, listener: Listener, peer: str, now_ns: int) -> Session:
        """A session for a client that connected to `listener` from `peer` (host:port)."""

    async def answer(self, question: object) -> object:
        """Answer a session's `Ask`; raises if it cannot."""

    def tick(self, now_ns: int) -> None:
        """Release what has been idle too long; called once a second."""

    def counters(self) -> Mapping[str, int]:
        """Event counters by name, without prefix; published with a `broker` label."""

    async def stop(self) -> None:
        """Close the front's own connections."""


class ReachingFront(BrokerFront, Protocol):
    """A front that helps to determine whether its broker can be reached."""

    @property
    def greeting(self) -> bytes:
        """Bytes that a broker answers immediately, from any client.

        A broker that accepts connections but does not answer the greeting counts as unreachable. If empty, a
        connection (with TLS, if the entry has it) suffices.
        """

    def reached(self) -> None:
        """The broker can be reached, for the first time or again; a front may now send its own requests."""


class NotingFront(BrokerFront, Protocol):
    """A front that has more to say to operators than whether its broker can be reached."""

    @property
    def notes(self) -> Sequence[str]:
        """What they should know or correct, in few lines; shown by `/readyz?verbose`."""


class PolicyRefusedError(Exception):
    """A policy cannot be set because it is unknown or its value is invalid."""


class PolicyUnavailableError(Exception):
    """A policy cannot be set now because the store cannot be written."""


class WebServices(Protocol):
    """What the gateway offers a broker's web site, which runs in the supervisor, apart from the relays."""

    @property
    def resolver(self) -> Resolver:
        """The policies now in force, file and store merged; a new object after each change."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """TLS for the broker's TLS addresses; None if the file does not configure any."""

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts of the broker's front under a prefix."""

    async def change(self, level: Level, name: str, changes: Mapping[str, object], actor: str) -> None:
        """Set policies of this broker in the store.

        Returns once they are in force here and were sent to the workers.

        :param name: namespace or topic.
        :param changes: values by field, in base units or with units; None removes a field.
        :param actor: the author, for the history.
        :raises PolicyRefusedError: if a value is invalid; nothing is changed then.
        :raises PolicyUnavailableError: if the store cannot be written.
        """


Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class WebSite(Protocol):
    """An ASGI application (HTTP only) that a broker's driver serves besides the broker's protocol."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on; port 0 takes a free one. It uses TLS if the broker's listeners do."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

    async def watch(self) -> None:
        """Do what it does by itself, until cancelled; may return at once."""

    async def close(self) -> None:
        """Close its connections to the broker."""


@dataclass(frozen=True, slots=True)
class Extra:
    """What a driver needs besides the base installation; a driver has it as its attribute `extra`.

    The gateway skips a driver whose modules are missing; a driver must therefore be importable without them.
    """

    name: str
    """What to install, as pip takes it: `sluicegate[danube]`."""
    modules: Mapping[str, str]
    """The modules that the driver imports, each with the distribution that contains it."""

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
    except ModuleNotFoundError:  # its parent package is missing
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
        """Parse a topic's name into its namespace and the other names that policies may use for it."""

    def front(self, config: Any) -> BrokerFront:
        """A front for one configured broker."""


class OptionalDriver(BrokerDriver, Protocol):
    """Further members that a driver may have; the gateway looks each of them up by its name."""

    @property
    def extra(self) -> Extra:
        """What the driver needs besides the base installation."""

    @property
    def capabilities(self) -> Mapping[str, str]:
        """How each policy is supported: native, emulated or not applicable."""

    @property
    def client_loggers(self) -> Sequence[str]:
        """Loggers of a client library, which are silenced: the driver logs failures itself."""

    def web(self, config: Any, services: WebServices) -> WebSite | None:
        """The web site of one configured broker; None if its entry has none."""

    async def own_settings(self, config: Any, tls: BrokerTlsFiles) -> OwnSettings:
        """Read the limits that one configured broker itself has; a few requests, each bounded in time.

        :param tls: for the connections to it.
        :raises OwnSettingsError: if it cannot be asked at all.
        """
