"""What the client interceptors of both kinds share: whose a call is, and what the map says of it."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor

from sluicegate.model import ANONYMOUS, MethodMap
from sluicegate_grpc.interceptors.enforcer import CallEnforcer, Engine
from sluicegate_grpc.interceptors.policed import Policed
from sluicegate_grpc.semantics.calls import Caller

Metadata = TypeVar("Metadata")
Lists = TypeVar("Lists")
_CLIENTS = count(1)


def anonymous(_: Any) -> str:
    """Whose a call is, where nobody says."""
    return ANONYMOUS


class ClientPolicies(Generic[Metadata, Lists]):
    """The calls of a client that policies ask about.

    :param engine: decides, such as a `sluicegate.embedded.PolicyEngine`.
    :param methods: which method is which operation; others pass, and are counted.
    :param principal: gives the principal of a call from its metadata; ANONYMOUS if it is left out.
    :param ghost_release_s: after so long without a stream or a call, a producer or consumer does not count.
    :param list_subscriptions: tells which subscriptions a topic has, or None if that is not known now; if it
        is left out, those count that were made by these calls.
    :param services: descriptors that the map is checked with; others are taken from protobuf's default pool.
    :raises MethodMapError: if the map is not that of its services, or if some limit would not hold by it.
    """

    def __init__(
        self,
        engine: Engine,
        methods: MethodMap,
        *,
        principal: Callable[[Metadata], str] = anonymous,
        ghost_release_s: float = 30,
        list_subscriptions: Lists | None = None,
        services: Sequence[ServiceDescriptor] = (),
    ) -> None:
        lists = list_subscriptions is not None
        self.enforcer = CallEnforcer(engine, methods, ghost_release_s, lists=lists, services=services)
        self.lists = list_subscriptions
        self._principal = principal
        self._name = f"client {next(_CLIENTS)}"
        self._streams = count(1)

    def policed(self, details: Any, *, response_streaming: bool) -> Policed | None:
        """The method map's entry for a call."""
        name = details.method  # bytes in grpc.aio, whatever its type says
        policed = self.enforcer.policed(name if isinstance(name, str) else name.decode())
        if policed is not None:
            policed.check_shape(response_streaming=response_streaming)
        return policed

    def caller(self, details: Any) -> Caller:
        """The caller of a call."""
        return self.enforcer.caller(self._principal(details.metadata), self._name)

    def stream_caller(self, details: Any) -> Caller:
        """A caller that lives as long as its stream."""
        name = f"{self._name} stream {next(self._streams)}"
        return self.enforcer.caller_of_its_own(self._principal(details.metadata), name)
