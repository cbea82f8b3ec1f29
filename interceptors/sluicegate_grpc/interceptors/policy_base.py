"""What the interceptors of servers and clients share: their parameters, and the caller of a call."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor

from sluicegate.model import ANONYMOUS, MethodMap
from sluicegate_grpc.interceptors.enforcer import CallEnforcer, Engine
from sluicegate_grpc.semantics.calls import Caller

CallInfo = TypeVar("CallInfo")
Lists = TypeVar("Lists")


class Policies(Generic[CallInfo, Lists]):
    """The policies of one server or client.

    :param engine: decides, such as a `sluicegate.embedded.PolicyEngine`.
    :param methods: which method is which operation; others pass, and are counted.
    :param principal: gives the principal of a call, on a server from its context, in a client from its
        metadata; if it is left out, the client certificate's common name on a server, else ANONYMOUS.
    :param ghost_release_s: after so long without a stream or a call, a producer or consumer does not count.
    :param list_subscriptions: tells which subscriptions a topic has, or None if that is not known now; if it
        is left out, those count that were made by the calls seen here.
    :param services: descriptors that the map is checked with; others are taken from protobuf's default pool.
    :raises MethodMapError: if the map is not that of its services, or if some limit would not hold by it.
    """

    def __init__(
        self,
        engine: Engine,
        methods: MethodMap,
        *,
        principal: Callable[[CallInfo], str] | None = None,
        ghost_release_s: float = 30,
        list_subscriptions: Lists | None = None,
        services: Sequence[ServiceDescriptor] = (),
    ) -> None:
        lists = list_subscriptions is not None
        self.enforcer = CallEnforcer(engine, methods, ghost_release_s, lists=lists, services=services)
        self.lists = list_subscriptions
        self._principal = principal or self.default_principal
        self._streams = count(1)

    @staticmethod
    def default_principal(info: Any) -> str:
        """The principal of a call where no `principal` is given."""
        return ANONYMOUS

    def caller_by(self, info: CallInfo, client: str) -> Caller:
        """The caller of a call.

        :param info: the context of the call, or its metadata.
        :param client: identifies the connection.
        """
        return self.enforcer.caller(self._principal(info), client)

    def stream_caller_by(self, info: CallInfo, client: str) -> Caller:
        """A caller that lives as long as its stream: its attachments are released with it."""
        return self.enforcer.caller_of_its_own(
            self._principal(info), f"{client} stream {next(self._streams)}"
        )
