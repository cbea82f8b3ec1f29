"""The versions offered to clients: computed once for each distinct response of a broker."""

from functools import partial
from typing import Final

from sluicegate_kafka.codec.api_keys import HIDDEN, READ
from sluicegate_kafka.codec.primitives import with_length
from sluicegate_kafka.codec.versions import restrict_api_versions
from sluicegate_kafka.session.requests.outcomes import Handle

_MOST: Final = 32
"""Responses that are remembered. A broker gives one for each version of the request, until it is upgraded."""
_ID_BYTES: Final = 4
"""The correlation id, in which these responses differ."""


class OfferedVersions:
    """ApiVersions responses as clients see them.

    Any client may ask at will before its login, and computing a response takes some 20 times
    as long as looking it up.
    """

    __slots__ = ("_handles", "_known")

    def __init__(self) -> None:
        self._handles: dict[int, Handle] = {}
        self._known: dict[tuple[int, bytes], bytes] = {}

    def handle(self, version: int) -> Handle:
        """The function that makes the client's response, shared by all requests of a version.

        Clients may have many requests pending, and the garbage collector scans every object kept for them, on
        the event loop.

        :param version: one that the gateway supports.
        """
        handle = self._handles.get(version)
        if handle is None:
            handle = self._handles[version] = partial(self._restrict, version)
        return handle

    def _restrict(self, version: int, response: bytes, now_ns: int) -> bytes:
        return self.restricted(response, version)

    def restricted(self, response: bytes, version: int) -> bytes:
        """A response with its length that offers only what both the broker and the gateway understand.

        :param response: the broker's, without its length.
        :param version: of its request.
        :raises ProtocolError: when it is malformed.
        """
        key = version, response[_ID_BYTES:]
        known = self._known.get(key)
        if known is None:
            known = restrict_api_versions(response, version, READ, HIDDEN)[_ID_BYTES:]
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = known
        return with_length([response[:_ID_BYTES], known])
