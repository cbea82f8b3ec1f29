"""What the client interceptors of both kinds share: a call's caller, its entry in the map, its deadline."""

from functools import cached_property
from itertools import count
from time import monotonic
from typing import Any

from sluicegate_grpc.interceptors.policed import Policed
from sluicegate_grpc.interceptors.policy_base import CallInfo, Lists, Policies
from sluicegate_grpc.semantics.calls import Caller

_CLIENTS = count(1)


class Deadline:
    """When a call that is held ends for its client.

    :param timeout_s: what the client gives it from now on; None if it does not end by itself.
    """

    __slots__ = ("_end_s",)

    def __init__(self, timeout_s: float | None) -> None:
        self._end_s = None if timeout_s is None else monotonic() + timeout_s

    def left_s(self) -> float | None:
        """The time that is left; None if there is no end."""
        return None if self._end_s is None else max(0.0, self._end_s - monotonic())

    def details(self, details: Any) -> Any:
        """A call's details, with the time that is left as its timeout.

        Those of another interceptor's own class, which is not a named tuple as gRPC's, stay as they are.
        """
        if self._end_s is None or not hasattr(details, "_replace"):
            return details
        return details._replace(timeout=self.left_s())


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
