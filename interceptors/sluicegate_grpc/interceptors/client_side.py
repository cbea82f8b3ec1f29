"""What the client interceptors of both kinds share: the caller of a call, and its entry in the map."""

from functools import cached_property
from itertools import count
from typing import Any

from sluicegate_grpc.interceptors.policed import Policed
from sluicegate_grpc.interceptors.policy_base import CallInfo, Lists, Policies
from sluicegate_grpc.semantics.calls import Caller

_CLIENTS = count(1)


class ClientPolicies(Policies[CallInfo, Lists]):
    """The calls of a client that policies ask about."""

    @cached_property
    def _name(self) -> str:
        return f"client {next(_CLIENTS)}"

    def policed(self, details: Any, *, response_streaming: bool) -> Policed | None:
        """The method map's entry for a call."""
        name = details.method  # bytes in grpc.aio, whatever its type says
        policed = self.enforcer.policed(name if isinstance(name, str) else name.decode())
        if policed is not None:
            policed.check_shape(response_streaming=response_streaming)
        return policed

    def caller(self, details: Any) -> Caller:
        """The caller of a call."""
        return self.caller_by(details.metadata, self._name)

    def stream_caller(self, details: Any) -> Caller:
        """A caller that lives as long as its stream."""
        return self.stream_caller_by(details.metadata, self._name)
