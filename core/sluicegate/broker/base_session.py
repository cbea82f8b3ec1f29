"""The base class of sessions."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from sluicegate.broker.commands import Close, Command
from sluicegate.broker.interface import Interface
from sluicegate.model import ANONYMOUS, ConnectionClose, SessionClose


class BaseSession(Interface, ABC):
    """One client connection and its upstream connection, without their sockets.

    Sessions override `receive_client` and `receive_upstream`, and of the rest what they need. All methods run
    in the gateway's event loop and must not wait. `now_ns` is the monotonic time in nanoseconds. If a method
    raises, the gateway logs it and closes this client. A class without a property of its own may declare an
    attribute of the same name in its body, such as `client: str = ""`.
    """

    __slots__ = ()

    # -- what the gateway reads --------------------------------------------------------------------

    @property
    def client(self) -> str:
        """Identifies this client in log lines; the gateway names the peer's address if it is empty."""
        return ""

    @property
    def held_bytes(self) -> int:
        """Bytes that the session buffers: incomplete frames, held requests and unsent responses."""
        return 0

    @property
    def frame_began_ns(self) -> int:
        """When the current incomplete frame of the client began, even if its start was forwarded; else 0."""
        return 0

    @property
    def is_logged_in(self) -> bool:
        """True once the client's first request is complete and its login, if any, was accepted.

        A client that takes longer than its `login_timeout` is closed. By default it is logged in at once.
        """
        return True

    @property
    def principal(self) -> str:
        """The principal of all requests; `model.ANONYMOUS` until the broker has accepted it."""
        return ANONYMOUS

    @property
    def places_bytes(self) -> int:
        """About how much memory its places take, such as those on topics; no budget counts it.

        It decides only whom the gateway closes once its memory is short.
        """
        return 0

    @property
    def unread_bytes(self) -> int:
        """How many of the broker's next bytes bypass the session, which sends nothing meanwhile.

        A session with such bytes overrides `passed` too.
        """
        return 0

    @property
    def unread_request_bytes(self) -> int:
        """How many of the client's next bytes bypass the session, which sends the broker nothing meanwhile.

        A session with such bytes overrides `request_passed` too.
        """
        return 0

    @property
    def open_calls(self) -> int:
        """How many requests the broker has not answered yet; a gateway that shuts down waits for them."""
        return 0

    @property
    def reads_while_ending(self) -> bool:
        """Whether to read from the client during shutdown; the session then answers no new requests."""
        return False

    # -- bytes -------------------------------------------------------------------------------------

    @abstractmethod
    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Handle bytes from the client; `PASS` if all of them are forwarded unchanged."""

    @abstractmethod
    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Handle bytes from the broker; `PASS` if all of them are forwarded unchanged."""

    def passed(self, count: int, now_ns: int) -> Sequence[Command]:
        """`count` of the `unread_bytes` were sent to the client. By default there is nothing to do."""
        return ()

    def request_passed(self, count: int, now_ns: int) -> Sequence[Command]:
        """`count` of the `unread_request_bytes` were sent to the broker. By default nothing is done."""
        return ()

    # -- what the session asked for ----------------------------------------------------------------

    def dialled(self, now_ns: int) -> Sequence[Command]:
        """The broker that `Dial` asked for is connected; required on listeners without `upstream`.

        :raises NotImplementedError: unless a session that dials overrides it.
        """
        raise NotImplementedError(f"{type(self).__name__} returns Dial, but does not override dialled()")

    def stands_in(self) -> None:
        """An `in_order` `Dial` connected to another broker than the first; `dialled` follows."""

    def undialled(self, reason: str, now_ns: int) -> Sequence[Command]:
        """None of the brokers of `Dial` can be reached; the gateway does not try again.

        A session that overrides it informs the client and closes with `UPSTREAM_UNREACHABLE`, now or
        later. By default the client is closed at once.

        :param reason: why, for the log and the client.
        """
        return (Close(ConnectionClose.UPSTREAM_UNREACHABLE, reason),)

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """The time of the last `WakeAt` has come. By default a client that is gone is closed.

        :param client_gone: whether the peer has disconnected meanwhile.
        """
        return (Close(SessionClose.CLIENT_GONE),) if client_gone else ()

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        """Handle the answer to an `Ask`. By default there is nothing to do.

        :param question: that of the `Ask`.
        :param answer: what the front returned; an exception instance if it failed.
        """
        return ()

    # -- the end -----------------------------------------------------------------------------------

    def ending(self, now_ns: int) -> Sequence[Command] | None:
        """The gateway shuts down; called about 50 times a second until the client is closed.

        The session drops an incomplete request: the client repeats it elsewhere. The last command is
        `Close()` as soon as closing loses no data and leaves no request with unknown outcome.

        :return: None leaves it to the gateway, which closes the client once it is quiet; so does the default.
        """
        return None

    def closed(self, now_ns: int) -> None:
        """Both connections are closed: release attachments, places in queues and held bytes."""

    def parting(self, now_ns: int) -> Iterator[None]:
        """Do the same as `closed`, in slices; the gateway calls only this method.

        A session that holds much overrides it by a generator, which yields wherever other clients may be
        served. By default it calls `closed`.
        """
        self.closed(now_ns)
        return iter(())
