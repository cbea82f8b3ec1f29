"""A gRPC broker behind the gateway: its listener and its sessions, by a method map alone."""

import logging
from collections.abc import Callable, Mapping

from sluicegate.broker import BaseFront, Listener, Services, helper
from sluicegate.model import MethodMap
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.config import GrpcConfig
from sluicegate_grpc.proxy.edits import Edits
from sluicegate_grpc.proxy.splice import GrpcSession, Shared
from sluicegate_grpc.proxy.splice.frames import PREFACE, SETTINGS, frame
from sluicegate_grpc.proxy.splice.requests import RequestRules
from sluicegate_grpc.proxy.splice.shared import Brokers
from sluicegate_grpc.proxy.splice.wellformed import Headers
from sluicegate_grpc.proxy.unknown import UnknownMethods
from sluicegate_grpc.semantics.calls import Attachments, Calls

_MAIN = "bootstrap"

Principal = Callable[[Headers], str | None]


class GrpcFront(BaseFront):
    """One gRPC broker.

    :param config: the broker's entry.
    :param methods: which method is which operation.
    :param principal: who a call says it is from; all are ANONYMOUS if it is left out.
    """

    greeting = PREFACE + frame(SETTINGS, 0, 0)
    """A broker responds with its own SETTINGS, before any call."""
    _log = logging.getLogger("sluicegate.grpc")
    """Under the gateway's own logger, which alone has a handler."""
    _list_valid_ns: int | None = None
    """How long a list of a topic's subscriptions counts as new; None if there are no lists: those count then
    that this gate has let in."""

    def __init__(self, config: GrpcConfig, methods: MethodMap, principal: Principal | None = None) -> None:
        self._entry = config
        self._methods = methods.sized_by("message") if config.size_of == "message" else methods
        self._principal = principal
        self._shared: Shared | None = None

    async def start(self, services: Services) -> None:
        """Listen for clients."""
        config = self._entry
        ghost_release_ns = config.ghost_release * 1_000_000
        gates = services.gates
        attachments = Attachments(gates.get, ghost_release_ns, list_valid_ns=self._list_valid_ns)
        self._shared = shared = Shared(
            services,
            Calls(self._methods, attachments, (gates.live, gates.exempt)),
            RequestRules(
                self._methods,
                edits=Edits(config.request_metadata.put, frozenset(config.request_metadata.take)),
                unknown_methods=UnknownMethods(config.unknown_methods, self._unknown_method),
            ),
            config.max_hold * 1_000_000,
            config.http2.limits,
            Brokers(f"broker {config.name}"),
        )
        if self._principal is not None:
            shared.rules.principal = self._principal
        self.equip(shared)
        await services.listen(Listener(_MAIN, config.listen.host, config.listen.port, ()))

    @helper
    def equip(self, shared: Shared) -> None:
        """Add what this kind of broker has beyond its method map; called before the first session."""

    @property
    def _started(self) -> Shared:
        """What all sessions share.

        :raises RuntimeError: before `start`.
        """
        if self._shared is None:
            raise RuntimeError("the front has not been started")
        return self._shared

    def session(self, listener: Listener, peer: str, now_ns: int) -> GrpcSession:
        """A session for a new client connection."""
        return GrpcSession(self._started, peer, self._entry.addresses)

    def tick(self, now_ns: int) -> None:
        """Once a second: release clients that were silent for too long."""
        if self._shared is not None:
            self._shared.calls.attachments.release_ghosts(now_ns)

    def counters(self) -> Mapping[str, int]:
        """Event counters."""
        if self._shared is None:
            return {}
        calls = self._shared.calls
        return {
            **self._shared.counters(),
            str(GrpcEvent.GHOSTS_RELEASED): calls.attachments.ghosts_released,
            str(GrpcEvent.UNKNOWN_IDS): calls.unknown_ids,
        }

    def _unknown_method(self, path: str, passes: bool) -> None:
        if passes:
            self._log.warning("method %r is not known: its calls pass, and no policy holds for them", path)
            return
        self._log.warning(
            "method %r is not known: its calls are refused; unknown_methods can let its service pass", path
        )
