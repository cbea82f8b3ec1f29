"""Hand-over of listening sockets to the next gateway, through a Unix socket in the state directory.

A supervisor offers what it and its workers listen on to a successor that is started with `--take-over`. A
worker whose supervisor was killed offers its own to the next supervisor.

An offer is a message with the latch that ends the offering gateway's term and, from a supervisor, the lock of
the state directory; then messages with the sockets. The successor sets the latch once it can serve: all
processes of the old gateway see that, even if the one that made the offer has ended since. A connection that
ends while the latch is not set changes nothing.
"""

import asyncio
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sluicegate.net.listening import descriptors
from sluicegate.net.listening.latch import Latch
from sluicegate.net.listening.state_lock import StateLock

log = logging.getLogger(__name__)

SUPERVISOR = "supervisor"
_SUFFIX = ".sock"
_LONGEST_PATH = 100
"""Bytes; a Unix address has room for 107."""
_PATIENCE_S = 5.0
"""Longest time for an offer."""
_CREDENTIALS = struct.Struct("3i")
"""Process, user and group of the other end (SO_PEERCRED)."""

Offered = Sequence[tuple[str, str, socket.socket]]
"""Broker (empty: the supervisor's own), name of the listener, socket."""


def directory(state_dir: str | os.PathLike[str]) -> Path:
    """Where the Unix sockets of one gateway are."""
    return Path(state_dir) / "handover"


class HandoverServer:
    """Offers the listening sockets of this process to its successor.

    :param folder: directory of the Unix socket; made if it is missing.
    :param name: of the Unix socket; one that is there already is replaced.
    :param offer: gives the sockets; None while they are unavailable.
    :param ends: what the successor sets once it serves.
    :param lock: what the successor holds, too; None if this process does not hold it.
    :raises OSError: if the Unix socket cannot be made.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        offer: Callable[[], Offered | None],
        ends: Latch,
        lock: StateLock | None = None,
    ) -> None:
        self.successor_pid = 0
        """Process id of the last one that asked for the sockets."""
        self._offer = offer
        self._ends = ends
        self._lock = lock
        self._path = folder / f"{name}{_SUFFIX}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._successor: socket.socket | None = None
        fresh = folder / f".{name}-{os.getpid()}"
        with suppress(FileNotFoundError):
            # Left by a process of the same id that was killed.
            fresh.unlink()
        try:
            with _address(fresh) as address:
                self._socket.bind(address)
            # Whoever connects gets the listening sockets, and the folder may be older and open to others.
            fresh.chmod(0o600)
            self._socket.listen(4)
            self._socket.setblocking(False)
            self._inode = fresh.stat().st_ino
            # Only now under its name: a successor never meets a socket that does not listen yet.
            fresh.replace(self._path)
        except OSError:
            self._socket.close()
            raise
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Stop offering; idempotent."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._forget_successor()
        with suppress(OSError):
            if self._path.stat().st_ino == self._inode:  # a successor may have put its own there
                self._path.unlink()

    def _accept(self) -> None:
        with suppress(OSError):
            successor, _ = self._socket.accept()
            successor.setblocking(False)
            refused = self._refused()
            if refused:
                descriptors.send(successor, {"refused": refused})
                successor.close()
                return
            self._successor = successor
            # From the kernel: a number that the successor sends could be that of any process.
            credentials = successor.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            self.successor_pid, _, _ = _CREDENTIALS.unpack(credentials)
            self._loop.add_reader(successor, self._hear)
            self._send_offer(successor)

    def _refused(self) -> str:
        if self._successor is not None:
            return "another process is taking over already"
        if self._ends.is_set:
            return "another gateway serves already"
        return "" if self._offer() is not None else "nothing to offer"

    def _send_offer(self, successor: socket.socket) -> None:
        offered = list(self._offer() or ())
        log.info("handing listening sockets to a successor", extra={"listeners": len(offered)})
        parts = [offered[at : at + descriptors.MOST] for at in range(0, len(offered), descriptors.MOST)]
        lock = () if self._lock is None else (self._lock,)
        try:
            descriptors.send(successor, {"pid": os.getpid()}, [self._ends, *lock])
            for part in parts or [[]]:
                names = [(broker, name) for broker, name, _ in part]
                message = {"listeners": names, "is_last": part is parts[-1] if parts else True}
                descriptors.send(successor, message, [bound for _, _, bound in part])
        except OSError as error:
            log.error("cannot hand listening sockets over: %s", error)
            self._forget_successor()

    def _hear(self) -> None:
        """The successor sends nothing: its end of the connection is closed."""
        self._forget_successor()
        if not self._ends.is_set:
            log.warning("the successor ended before it served; going on")

    def _forget_successor(self) -> None:
        if self._successor is not None:
            self._loop.remove_reader(self._successor)
            self._successor.close()
            self._successor = None


class Predecessor:
    """An earlier process that still accepts clients.

    :param pid: its process id.
    :param ends: ends the term of its gateway.
    :param lock: of the state directory; None if it is a worker.
    :param line: to it; while it is open, it makes no other offer.
    """

    def __init__(self, pid: int, ends: Latch, lock: StateLock | None, line: socket.socket) -> None:
        self.pid = pid
        self.lock = lock
        self.sockets: list[tuple[str, str, socket.socket]] = []
        """Broker (empty: the supervisor's own), name of the listener, socket."""
        self._ends = ends
        self._line = line

    def retire(self) -> None:
        """Make all processes of its gateway drain and end, whether it still runs itself or not."""
        self._ends.set()

    def release(self) -> None:
        """Release what it has handed over but the lock; it continues unless it was retired."""
        for _, _, bound in self.sockets:
            bound.close()
        self._ends.close()
        self._line.close()


def predecessors(folder: Path, *, replace: bool) -> list[Predecessor]:
    """The processes to take listening sockets from.

    :param folder: the directory of their Unix sockets.
    :param replace: also take over from a running supervisor; else only from workers without one.
    """
    running = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        if path.stem == SUPERVISOR and not replace:
            continue
        if (predecessor := _ask(path)) is not None:
            running.append(predecessor)
    return running


def _ask(path: Path) -> Predecessor | None:
    with ExitStack() as undo:
        line = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        # A process that hangs must not keep this gateway from starting.
        line.settimeout(_PATIENCE_S)
        try:
            with _address(path) as address:
                line.connect(address)
            predecessor = _receive_offer(line, undo)
        except ConnectionRefusedError:  # its process has ended
            with suppress(OSError):
                path.unlink()
            return None
        except (OSError, ValueError, KeyError) as error:
            log.warning("cannot take over from %s: %s", path, error)
            return None
        if predecessor is not None:
            undo.pop_all()
        return predecessor


def _receive_offer(line: socket.socket, undo: ExitStack) -> Predecessor | None:
    """Receive what a process offers; None if it offers nothing.

    :param undo: gets what releases a part of an offer.
    """
    if (heard := descriptors.receive(line)) is None:
        return None
    message, marks = heard
    if "refused" in message:
        log.debug("nothing is handed over: %s", message["refused"])
        return None
    ends, *lock = marks
    predecessor = Predecessor(message["pid"], Latch(ends), StateLock(lock[0]) if lock else None, line)
    undo.callback(predecessor.release)
    if predecessor.lock is not None:
        undo.callback(predecessor.lock.release)
    while (heard := descriptors.receive(line)) is not None:
        message, received = heard
        # Strict: the kernel leaves out descriptors for which this process has no room.
        for (broker, name), descriptor in zip(message["listeners"], received, strict=True):
            predecessor.sockets.append((broker, name, socket.socket(fileno=descriptor)))
        if message["is_last"]:
            return predecessor
    return None


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """The address of a Unix socket for a path of any length."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    # A Unix address is short, however long the path: the socket is named below an open folder.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
