"""The base class of fronts."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from sluicegate.broker.affinity import Wait
from sluicegate.broker.base_session import BaseSession
from sluicegate.broker.commands import Listener
from sluicegate.broker.interface import Interface
from sluicegate.broker.services import Services


class BaseFront(Interface, ABC):
    """One broker (or cluster) behind the gateway.

    Fronts override `start` and `session`, and of the rest what they need. All methods run in the gateway's
    event loop. `now_ns` is the monotonic time in nanoseconds.
    """

    greeting: bytes = b""
    """Bytes that a broker answers immediately, from any client.

    A broker that accepts connections but does not answer the greeting counts as unreachable. If empty, a
    connection (with TLS, if the entry has it) suffices.
    """

    @property
    def notes(self) -> Sequence[str]:
        """What operators should know or correct, in few lines; shown by `/readyz?verbose`."""
        return ()

    @abstractmethod
    async def start(self, services: Services) -> None:
        """Open the listeners known so far; an unreachable broker is not an error.

        :raises OSError: if a listener cannot be opened, which ends the worker.
        """

    @abstractmethod
    def session(self, listener: Listener, peer: str, now_ns: int) -> BaseSession:
        """A session for a client that connected to `listener`.

        :param peer: the client's address, `host:port`.
        """

    def affinity(self, listener: Listener, host: str, first: bytes) -> bytes | Wait | None:
        """What connections of one client have in common, where a broker has several workers.

        Connections with the same key are served by the same worker, so that sessions of one client may share
        state. By default a connection is whole in itself, and the worker with fewest connections serves it.

        :param listener: where the client connected.
        :param host: the client's address, without its port.
        :param first: what the client sent first, as far as it was asked for; nothing at the first call.
        :return: the key; None if any worker will do; `Wait` for more of the first bytes, which works only
            where clients speak first, and in plain text. Whoever does not send them within `login_timeout` is
            closed.
        """
        return None

    def heard(self, kind: str, content: Mapping[str, Any]) -> None:
        """Another worker of the broker tells something by `Services.tell_siblings` or a `UNIQUE_FACT`."""

    def reached(self) -> None:
        """The broker can be reached, for the first time or again; a front may now send its own requests."""

    async def answer(self, question: object) -> object:
        """Answer a session's `Ask`. By default sessions ask nothing.

        :raises Exception: if it cannot; the session is given the exception.
        """
        raise TypeError(f"expected no question, got {question!r}")

    def tick(self, now_ns: int) -> None:
        """Release what has been idle too long; called once a second."""

    def counters(self) -> Mapping[str, int]:
        """Event counters by name, without prefix; published with a `broker` label."""
        return {}

    async def stop(self) -> None:
        """Close the front's own connections."""
