"""The parsed headers of requests, cached for all requests with equal headers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from sluicegate.model import Method, MethodMap, Role
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.edits import Edits
from sluicegate_grpc.proxy.splice.blocks import Deadlines, RequestBlocks, TooLargeError, check_updates, encode
from sluicegate_grpc.proxy.splice.settings import PeerSettings
from sluicegate_grpc.proxy.splice.wellformed import Headers, is_method, is_wellformed
from sluicegate_grpc.proxy.unknown import UnknownMethods
from sluicegate_grpc.semantics.content_plan import ContentPlan
from sluicegate_grpc.semantics.fields import Plan
from sluicegate_grpc.semantics.plans import Plans
from sluicegate_grpc.semantics.status import PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, Refusal

Rewrite: TypeAlias = Callable[[bytes], bytes | Refusal | None]
"""Makes another message of a response: None leaves it, a refusal ends the call instead of it."""

_LENGTH = re.compile(r"[0-9]{1,15}")
_DEADLINES = Deadlines()
_UNREAD = Plans(*(Plan({}),) * 6, ContentPlan(Method(Role.PASS)))
_MAX_KNOWN = 1_024
_MAX_KNOWN_BYTES = 8_192
"""Of a header block that is remembered."""
_FEW_FIELDS = 32
"""The work of a frame covers as many fields of a request's headers, and reading more is charged."""
_LEAST_FIELD_BYTES = 32
_FIELD_WORK = 4
"""What one of them takes, in the units of `frame_stream.WORK_PER_TURN`."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request goes no further, whatever the policies say."""

    event: GrpcEvent
    """Its counter."""
    refusal: Refusal | None = None
    """The answer; None to reset its stream (RFC 9113 section 8.1.1)."""
    are_trailers: bool = False
    """True if these headers may end a request, though they cannot begin one."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Who a client says that it is."""

    principal: str
    credentials: bytes
    """A digest of its `authorization`."""


@dataclass(frozen=True, slots=True)
class Request:
    """The parsed headers of a request, one object for all equal ones."""

    path: str
    """`/package.Service/Method`."""
    method: Method | None = None
    """None if no policy can ask about it."""
    is_publish: bool = False
    plans: Plans = _UNREAD
    encoding: str = ""
    """The compression of its messages (`grpc-encoding`)."""
    length: int | None = None
    """Bytes of all its DATA, if it tells."""
    claim: Claim | None = None
    authorization: str = field(default="", repr=False)
    """Its `authorization`, if the gateway may act on behalf of its client."""
    broker: str = ""
    """The broker that it is for, if it names one."""
    block: bytes = b""
    """Its headers encoded for the broker; empty if they pass unchanged."""
    fault: Fault | None = None
    is_plain: bool = True
    """True if its headers may pass without being looked at again."""

    @property
    def known_method(self) -> Method:
        """Its method.

        :raises LookupError: if no policy can ask about it.
        """
        if self.method is None:
            raise LookupError(f"no policy asks about {self.path}")
        return self.method

    @property
    def is_too_large(self) -> bool:
        """True if its headers were not read, as they are too large."""
        return self.fault is not None and self.fault.event is GrpcEvent.HEADER_LIST_TOO_LARGE

    @property
    def are_trailers(self) -> bool:
        """True if they may end a request."""
        return self.fault is not None and self.fault.are_trailers


@dataclass(slots=True)
class RequestRules:
    """How the requests of a front's clients are read, and those that were."""

    methods: MethodMap
    rewrites: Mapping[str, Rewrite] = field(default_factory=dict)
    """By the path of a method: what makes another response message of the broker's."""
    unknown_methods: UnknownMethods = field(default_factory=lambda: UnknownMethods("pass"))
    """The rule for methods that the map does not name."""
    edits: Edits = field(default_factory=Edits)
    """What is changed in the headers of every request."""
    forbidden: frozenset[str] = frozenset()
    """Metadata keys (lower case) that only brokers may send; requests with one of them are refused."""
    principal: Callable[[Headers], str | None] = lambda headers: None
    """The principal that a request claims; it counts once the broker has accepted the same credentials."""
    keeps_authorization: bool = False
    """Whether the gateway acts on behalf of its clients."""
    known: dict[bytes, Request] = field(default_factory=dict)
    """Parsed header blocks, by their bytes."""
    _plans: dict[str, Plans] = field(default_factory=dict)

    def knows(self, path: str) -> bool:
        """Whether the map names a method, or its responses are rewritten."""
        return path in self.methods.methods or path in self.rewrites

    def keep_authorization(self) -> None:
        """From now on requests keep what the gateway needs to act on behalf of their clients."""
        self.keeps_authorization = True

    def request(self, headers: Headers, *, is_alone: bool) -> Request:
        """What the headers of a request say.

        :param is_alone: whether a decoder that knows nothing but their block reads the same.
        """
        fields = dict(reversed(headers))
        path, length = fields.get(":path", ""), fields.get("content-length", "")
        authorization = [value for name, value in headers if name == "authorization"]
        is_one = len(authorization) == 1
        broker = fields.get(self.methods.route_header, "") if self.methods.route_header else ""
        fault = self._fault(headers, path, fields)
        block = b""
        if self.edits and (fault is None or fault.refusal is not None):  # trailers are not edited
            block = encode(self.edits.apply(headers))
        elif not is_alone:
            block = encode(headers)
        method = self.methods.methods.get(path)
        if method is not None and not (method.is_policed or method.role is Role.LOOKUP):
            method = None
        return Request(
            path,
            method,
            is_publish=method is not None and method.role is Role.PUBLISH,
            plans=_UNREAD if method is None else self._plans_of(path, method),
            encoding=fields.get("grpc-encoding", ""),
            length=int(length) if _LENGTH.fullmatch(length) else None,
            claim=self._claim(headers, authorization[0]) if is_one else None,
            authorization=authorization[0] if is_one and self.keeps_authorization else "",
            broker=broker,
            block=block,
            fault=fault,
            is_plain=fault is None and not broker and not block,
        )

    def _claim(self, headers: Headers, authorization: str) -> Claim | None:
        principal = self.principal(headers)
        return Claim(principal, sha256(authorization.encode("latin-1")).digest()) if principal else None

    def _plans_of(self, path: str, method: Method) -> Plans:
        plans = self._plans.get(path)
        if plans is None:
            plans = self._plans[path] = Plans.of(method)
        return plans

    def _fault(self, headers: Headers, path: str, fields: Mapping[str, str]) -> Fault | None:
        if not is_wellformed(headers):  # a server may read them otherwise than the gateway
            are_trailers = not any(name.startswith(":") for name in fields)
            return Fault(GrpcEvent.MALFORMED_HEADERS, are_trailers=are_trailers)
        for name in self.forbidden:
            if name in fields:
                text = f"Clients may not send the metadata {name}."
                return Fault(GrpcEvent.FORBIDDEN_HEADER_REFUSED, Refusal(PERMISSION_DENIED, text))
        if not is_method(path):
            text = f"{path[:200]!r} is not the path of a method."
            return Fault(GrpcEvent.MALFORMED_PATH, Refusal(UNIMPLEMENTED, text))
        if not self.knows(path) and (refusal := self.unknown_methods.refusal(path)) is not None:
            return Fault(GrpcEvent.UNKNOWN_METHOD_REFUSED, refusal)
        return None


class RequestReader:
    """Reads the header blocks of one client.

    :param rules: the front's; parsed headers are cached there, for all clients.
    :param most: bytes of a request's headers, by RFC 9113 section 6.5.2.
    :param settings: the client's.
    :param charge: counts extra work of the frame that is handled.
    """

    __slots__ = ("_charge", "_leaves_out", "_most", "_rules", "_settings", "blocks", "known")

    def __init__(
        self, rules: RequestRules, most: int, settings: PeerSettings, charge: Callable[[int], None]
    ) -> None:
        self._rules = rules
        self._most = most
        self._settings = settings
        self._charge = charge
        self.known = rules.known
        """The requests of earlier blocks; they hold for equal blocks while `blocks.is_plain`."""
        self.blocks = RequestBlocks(most)
        self._leaves_out = not rules.edits
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
            self._charge(self._most // _LEAST_FIELD_BYTES * _FIELD_WORK)
            refusal = Refusal(RESOURCE_EXHAUSTED, f"{error}. Send less metadata.")
            return Request("", fault=Fault(GrpcEvent.HEADER_LIST_TOO_LARGE, refusal), is_plain=False)
        if len(headers) > _FEW_FIELDS:
            self._charge(len(headers) * _FIELD_WORK)
        request = self._rules.request(headers, is_alone=is_alone)
        # One that fills a table, or needs one, means something else to another connection.
        if is_alone and is_plain and len(block) <= _MAX_KNOWN_BYTES:
            if len(self.known) >= _MAX_KNOWN:
                self.known.clear()
            self.known[block if key is None else key] = request
        return request
