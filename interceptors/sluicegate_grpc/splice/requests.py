"""What a request's headers say, read once for all requests that have the same."""

from dataclasses import dataclass

from sluicegate.model import Method, Role
from sluicegate_grpc.fields import Plan
from sluicegate_grpc.splice.blocks import RequestBlocks, Volatile, encode
from sluicegate_grpc.splice.shared import Headers, Plans, Shared

_NOTHING = Plans(*(Plan({}),) * 4)
_VOLATILE = Volatile("grpc-timeout")
"""Clients with deadlines send what is left of them."""
_MAX_KNOWN = 1_024
_MAX_KNOWN_BYTES = 8_192
"""Of a header block that is remembered."""


@dataclass(slots=True)
class Request:
    """The headers of requests, one object for all that are alike."""

    path: str
    """`/package.Service/Method`."""
    method: Method | None = None
    """None if no policy can ask about it."""
    is_publish: bool = False
    plans: Plans = _NOTHING
    encoding: str = ""
    """How its compressed messages are."""
    credentials: str = ""
    """The words by which the broker knows its sender."""
    principal: str = ""
    """Who that is, as he says."""
    broker: str = ""
    """The broker that it is for, if it names one."""
    block: bytes = b""
    """Its headers for the broker; empty if they may go as they came."""

    @property
    def known_method(self) -> Method:
        """Its method.

        :raises LookupError: if no policy can ask about it.
        """
        if self.method is None:
            raise LookupError(f"no policy asks about {self.path}")
        return self.method


class RequestReader:
    """Reads the header blocks of one client.

    :param shared: the front's state; what is read is remembered there, for all clients.
    """

    __slots__ = ("_blocks", "_known", "_shared")

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._known = shared.known_requests
        self._blocks = RequestBlocks(shared.limits.header_list_bytes)

    def read(self, block: bytes) -> Request:
        """What a block says.

        :raises WireError: if it cannot be read.
        """
        # <hot> Runs for every request.
        key: bytes | None = block
        if self._blocks.is_plain:
            if (request := self._known.get(block)) is not None:
                return request
            key = _VOLATILE.without(block) if len(block) <= _MAX_KNOWN_BYTES else None
            if key is not None and (request := self._known.get(key)) is not None:
                return request
        headers, is_alone = self._blocks.read(block)
        request = self._understand(headers)
        if not is_alone:
            request.block = encode(headers)
        elif len(block) <= _MAX_KNOWN_BYTES:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[block if key is None else key] = request
        return request

    def _understand(self, headers: Headers) -> Request:
        shared = self._shared
        found = dict(reversed(headers))
        request = Request(found.get(":path", ""), encoding=found.get("grpc-encoding", ""))
        request.credentials = found.get("authorization", "")
        if request.credentials:
            request.principal = shared.principal(headers) or ""
        if shared.methods.route_header:
            request.broker = found.get(shared.methods.route_header, "")
        method = shared.methods.methods.get(request.path)
        if method is not None:
            request.method = method
            request.is_publish = method.role is Role.PUBLISH
            request.plans = shared.plans(request.path, method)
        return request
