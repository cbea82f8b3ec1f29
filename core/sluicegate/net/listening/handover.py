"""Hand-over of listening sockets to the next gateway, through a Unix socket in the state directory.

A supervisor offers what it and its workers listen on to a successor that is started with `--take-over`, and
drains once the successor serves. A worker whose supervisor was killed offers its own to the next supervisor.

The protocol is one exchange: the offer (several messages if there are many sockets), then, once the successor
accepts clients, `{"serving": its process id}`. A connection that ends without that changes nothing.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sluicegate.net.listening import descriptors

log = logging.getLogger(__name__)

SUPERVISOR = "supervisor"
_SUFFIX = ".sock"
_LONGEST_PATH = 100
"""Bytes; a Unix address has room for 107."""
_PATIENCE_S = 5.0
"""Longest time for an offer."""

Offered = Sequence[tuple[str, str, socket.socket]]
"""Broker (empty: the supervisor's own), name of the listener, socket."""


def directory(state_dir: str | os.PathLike[str]) -> Path:
    """Where the Unix sockets of one gateway are."""
    return Path(state_dir) / "handover"


class HandoverServer:
    """Offers the listening sockets of this process to its successor.

    :param place: directory of the Unix socket; made if it is missing.
    :param name: of the Unix socket; one that is there already is replaced.
    :param offer: gives the sockets; None while they are unavailable.
    :param retire: called with the successor's process id once it serves.
    :raises OSError: if the Unix socket cannot be made.
    """

    def __init__(
        self, place: Path, name: str, offer: Callable[[], Offered | None], retire: Callable[[int], None]
    ) -> None:
        self._offer = offer
        self._retire = retire
        self._path = place / f"{name}{_SUFFIX}"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._successor: socket.socket | None = None
        fresh = place / f".{name}-{os.getpid()}"
        with suppress(FileNotFoundError):
            fresh.unlink()
        try:
            with _address(fresh) as address:
                self._socket.bind(address)
            fresh.chmod(0o600)
            self._socket.listen(4)
            self._socket.setblocking(False)
            self._inode = fresh.stat().st_ino
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
            self._loop.add_reader(successor, self._hear)
            self._send_offer(successor)

    def _refused(self) -> str:
        if self._successor is not None:
            return "another process is taking over already"
        return "" if self._offer() is not None else "nothing to offer"

    def _send_offer(self, successor: socket.socket) -> None:
        offered = list(self._offer() or ())
        log.info("handing listening sockets to a successor", extra={"listeners": len(offered)})
        parts = [offered[at : at + descriptors.MOST] for at in range(0, len(offered), descriptors.MOST)]
        try:
            for part in parts or [[]]:
                names = [(broker, name) for broker, name, _ in part]
                message = {
                    "pid": os.getpid(),
                    "listeners": names,
                    "is_last": part is parts[-1] if parts else True,
                }
                descriptors.send(successor, message, [bound for _, _, bound in part])
        except OSError as error:
            log.error("cannot hand listening sockets over: %s", error)
            self._forget_successor()

    def _hear(self) -> None:
        if self._successor is None:
            return
        try:
            heard = descriptors.receive(self._successor)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            heard = None
        self._forget_successor()
        if heard is None or "serving" not in heard[0]:
            log.warning("the successor ended before it served; going on")
        else:
            self._retire(int(heard[0]["serving"]))

    def _forget_successor(self) -> None:
        if self._successor is not None:
            self._loop.remove_reader(self._successor)
            self._successor.close()
            self._successor = None


class Predecessor:
    """An earlier process that still accepts clients.

    :param pid: its process id.
    :param sockets: what it listens on.
    """

    def __init__(self, pid: int, sockets: Offered, line: socket.socket) -> None:
        self.pid = pid
        self.sockets = sockets
        self._line = line

    def retire(self) -> None:
        """Make it drain and end: this process accepts clients from now on."""
        with suppress(OSError):  # it has ended by itself
            descriptors.send(self._line, {"serving": os.getpid()})
        self._line.close()

    def leave(self) -> None:
        """Leave it running; does nothing after `retire`."""
        self._line.close()


def predecessors(place: Path, *, replace: bool) -> list[Predecessor]:
    """The processes to take listening sockets from.

    :param place: the directory of their Unix sockets.
    :param replace: also take over from a running supervisor; else only from workers without one.
    """
    found = []
    for path in sorted(place.glob(f"*{_SUFFIX}")):
        if path.stem == SUPERVISOR and not replace:
            continue
        if (predecessor := _ask(path)) is not None:
            found.append(predecessor)
    return found


def _ask(path: Path) -> Predecessor | None:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.settimeout(_PATIENCE_S)
    sockets: list[tuple[str, str, socket.socket]] = []
    try:
        with _address(path) as address:
            line.connect(address)
        while (heard := descriptors.receive(line)) is not None:
            message, part = heard
            if "refused" in message:
                log.debug("%s hands nothing over: %s", path, message["refused"])
                break
            names: Sequence[tuple[str, str]] = message["listeners"]
            sockets += [(broker, name, bound) for (broker, name), bound in zip(names, part, strict=True)]
            if message["is_last"]:
                return Predecessor(message["pid"], sockets, line)
    except ConnectionRefusedError:  # its process has ended
        with suppress(OSError):
            path.unlink()
    except (OSError, ValueError, KeyError) as error:
        log.warning("cannot take over from %s: %s", path, error)
    line.close()
    for _, _, bound in sockets:
        bound.close()
    return None


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """The address of a Unix socket for a path of any length."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
