"""Responses that carry addresses of the cluster: clients must come back through the gateway."""

from collections.abc import Callable, Mapping

from sluicegate.broker import Buffer
from sluicegate.sessions.work import Turn
from sluicegate_kafka.codec.addresses import (
    AddressMap,
    rewrite_describe_cluster,
    rewrite_find_coordinator,
    rewrite_metadata,
)
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.codec.quorum import without_listeners
from sluicegate_kafka.session.requests.outcomes import Expected, Finished, Handler, Making, Pass, in_slices
from sluicegate_kafka.session.shared.shared import Shared

Rewrite = Callable[[bytes, int, AddressMap], bytes]
_REWRITES: Mapping[int, Rewrite] = {
    ApiKey.METADATA: rewrite_metadata,
    ApiKey.DESCRIBE_CLUSTER: rewrite_describe_cluster,
}
_OPENING_NS = 50_000_000
"""How long a response with a new broker is held: the gateway listens for it before clients connect."""


class Addressing:
    """Rewrites the addresses in the responses of one connection."""

    __slots__ = ("_shared",)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    @property
    def handlers(self) -> dict[int, Handler]:
        """The handlers of this package's APIs."""
        return {
            ApiKey.DESCRIBE_CLUSTER: lambda frame, head, now_ns: self.rewritten(head),
            ApiKey.FIND_COORDINATOR: self._coordinators,
            ApiKey.DESCRIBE_QUORUM: self._without_controllers,
        }

    def _without_controllers(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass:
        def clear(turn: Turn, response: bytes) -> Making:
            cleared = yield from without_listeners(response, head.version)
            return with_length([cleared])

        return Pass(Expected(head.correlation_id, in_slices(clear)))

    def _coordinators(self, frame: bytes, head: RequestHead, now_ns: int) -> Pass:
        nodes = self._shared.learned.nodes

        def readdress(turn: Turn, response: bytes) -> Making:
            before = nodes.changes
            rewritten = yield from rewrite_find_coordinator(response, head.version, nodes.named)
            return self._once_open(rewritten, before, turn.now_ns)

        return Pass(Expected(head.correlation_id, in_slices(readdress)))

    def rewritten(self, head: RequestHead) -> Pass:
        """Pass a Metadata or DescribeCluster request, and rewrite its response."""
        return Pass(
            Expected(head.correlation_id, lambda frame, now_ns: self.readdressed(frame, head, now_ns))
        )

    def readdressed(self, response: bytes, head: RequestHead, now_ns: int) -> Buffer | Finished:
        """The response with the gateway's addresses, to a request with this head.

        :param response: without its length.
        :raises ProtocolError: when it is malformed.
        """
        nodes = self._shared.learned.nodes
        before = nodes.changes
        rewritten = _REWRITES[head.api_key](response, head.version, nodes.listed)
        return self._once_open(rewritten, before, now_ns)

    def _once_open(self, rewritten: bytes, before: int, now_ns: int) -> Buffer | Finished:
        """A response, held if it names a new broker.

        :param before: how often nodes had changed before it.
        """
        frame = with_length([rewritten])
        if self._shared.learned.nodes.changes != before:
            return Finished(frame, now_ns + _OPENING_NS)
        return frame
