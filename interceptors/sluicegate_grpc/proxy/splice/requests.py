"""The parsed headers of requests, cached for all requests with equal headers."""

import re
from collections.abc import Callable, Mapping
from hashlib import sha256

from sluicegate.model import Role
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.splice.blocks import Deadlines, RequestBlocks, TooLargeError, check_updates, encode
from sluicegate_grpc.proxy.splice.request import Request
from sluicegate_grpc.proxy.splice.settings import PeerSettings
from sluicegate_grpc.proxy.splice.shared import Headers, Shared
from sluicegate_grpc.proxy.splice.wellformed import is_method, is_wellformed
from sluicegate_grpc.semantics.status import PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, Refusal

_LENGTH = re.compile(r"[0-9]{1,15}")
_DEADLINES = Deadlines()
_MAX_KNOWN = 1_024
_MAX_KNOWN_BYTES = 8_192
"""Of a header block that is remembered."""
_FEW_FIELDS = 32
"""The work of a frame covers as many fields of a request's headers, and reading more is charged."""
_LEAST_FIELD_BYTES = 32
_FIELD_WORK = 4
"""What one of them takes, in the units of `frame_stream.WORK_PER_TURN`."""


class RequestReader:
    """Reads the header blocks of one client.

    :param shared: the front's state; parsed headers are cached there, for all clients.
    :param settings: the client's.
    :param charge: counts extra work of the frame that is handled.
    """

    __slots__ = ("_charge", "_leaves_out", "_settings", "_shared", "blocks", "known")

    def __init__(self, shared: Shared, settings: PeerSettings, charge: Callable[[int], None]) -> None:
        self._shared = shared
        self._settings = settings
        self._charge = charge
        self.known = shared.known_requests
        """The requests of earlier blocks; they hold for equal blocks while `blocks.is_plain`."""
        self.blocks = RequestBlocks(shared.limits.header_list_bytes)
        self._leaves_out = not shared.edits
        """Whether requests are one that differ only in their deadline; those written again are not."""

    def read(self, block: bytes) -> Request:
        """Parse a header block.

        :return: one that is to be refused, if its headers are too large.
        :raises WireError: if it cannot be read.
        """
        # <hot> Runs for nearly every request with a deadline.
        key: bytes | None = block
        is_plain = self.blocks.is_plain
        if is_plain:
            if (request := self.known.get(block)) is not None:
                return request
            key = _DEADLINES.without(block) if self._leaves_out and len(block) <= _MAX_KNOWN_BYTES else None
            if key is not None and (request := self.known.get(key)) is not None:
                return request
        check_updates(block, may_have_table=not self._settings.has_acknowledged)
        try:
            headers, is_alone = self.blocks.read(block)
        except TooLargeError as error:
            self._charge(self._shared.limits.header_list_bytes // _LEAST_FIELD_BYTES * _FIELD_WORK)
            refusal = Refusal(RESOURCE_EXHAUSTED, f"{error}. Send less metadata.")
            return Request(
                "", refusal=(GrpcEvent.HEADER_LIST_TOO_LARGE, refusal), is_too_large=True, is_plain=False
            )
        if len(headers) > _FEW_FIELDS:
            self._charge(len(headers) * _FIELD_WORK)
        request = self._understand(headers)
        if self._shared.edits and not request.is_malformed:  # trailers are, as headers
            request.block, request.is_plain = encode(self._shared.edits.apply(headers)), False
        elif not is_alone:
            request.block, request.is_plain = encode(headers), False
        if is_alone and is_plain and len(block) <= _MAX_KNOWN_BYTES:
            if len(self.known) >= _MAX_KNOWN:
                self.known.clear()
            self.known[block if key is None else key] = request
        return request

    def _understand(self, headers: Headers) -> Request:
        shared = self._shared
        fields = dict(reversed(headers))
        request = Request(fields.get(":path", ""), encoding=fields.get("grpc-encoding", ""))
        length = fields.get("content-length", "")
        request.length = int(length) if _LENGTH.fullmatch(length) else None
        request.is_malformed = not is_wellformed(headers)
        request.are_trailers = request.is_malformed and not any(name.startswith(":") for name in fields)
        request.refusal = self._refusal(request.path, fields)
        authorization = [value for name, value in headers if name == "authorization"]
        if len(authorization) == 1 and (principal := shared.principal(headers)):
            request.credentials = sha256(authorization[0].encode("latin-1")).digest()
            request.principal = principal
        if shared.aliases is not None and len(authorization) == 1:
            request.authorization = authorization[0]
        if shared.methods.route_header:
            request.broker = fields.get(shared.methods.route_header, "")
        request.is_plain = not (request.is_malformed or request.refusal or request.broker)
        method = shared.methods.methods.get(request.path)
        if method is not None and (method.is_policed or method.role is Role.LOOKUP):
            request.method = method
            request.is_publish = method.role is Role.PUBLISH
            request.plans = shared.plans(request.path, method)
        return request

    def _refusal(self, path: str, fields: Mapping[str, str]) -> tuple[GrpcEvent, Refusal] | None:
        for name in self._shared.forbidden:
            if name in fields:
                text = f"Clients may not send the metadata {name}."
                return GrpcEvent.FORBIDDEN_HEADER_REFUSED, Refusal(PERMISSION_DENIED, text)
        if not is_method(path):
            text = f"{path[:200]!r} is not the path of a method."
            return GrpcEvent.MALFORMED_PATH, Refusal(UNIMPLEMENTED, text)
        if (
            not self._shared.knows(path)
            and (refusal := self._shared.unknown_methods.refusal(path)) is not None
        ):
            return GrpcEvent.UNKNOWN_METHOD_REFUSED, refusal
        return None
