"""Connections that client libraries leave open when their event loop ends."""

from asyncio import selector_events
from typing import Any
from weakref import WeakSet

import pytest

_TRANSPORT: Any = selector_events._SelectorTransport  # type: ignore[attr-defined]


class Transports:
    """The transports that event loops of this process make from now on.

    :param patch: undoes what notes them.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._made: WeakSet[Any] = WeakSet()
        initialize = _TRANSPORT.__init__

        def noted(transport: Any, *arguments: Any, **named: Any) -> None:
            initialize(transport, *arguments, **named)
            self._made.add(transport)

        patch.setattr(_TRANSPORT, "__init__", noted)

    def close_behind_loops(self) -> None:
        """Close what is still open of closed loops.

        At times a client library leaves a connection behind to a broker that has hung up. The warning of it
        would come with the next collection of garbage, in a later test that has nothing to do with it.
        """
        for transport in list(self._made):
            if transport._sock is not None and transport._loop.is_closed():
                transport._sock.close()
                transport._sock = None
