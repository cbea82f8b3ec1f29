"""The hand-over of listening sockets from the previous gateway, and when that one drains."""

import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from socket import AF_UNIX, SOCK_DGRAM, socket

from sluicegate.net.listening.descriptors import duplicate
from sluicegate.net.listening.handover import (
    SUPERVISOR,
    HandoverServer,
    Offered,
    Predecessor,
    directory,
    predecessors,
)
from sluicegate.net.listening.latch import Term
from sluicegate.net.listening.sockets import Inherited, passed_by_systemd
from sluicegate.net.listening.state_lock import StateLock, owner

log = logging.getLogger(__name__)


class Succession:
    """Between the processes before this gateway and the gateway after it.

    :param state_dir: the directory that all of them share.
    :param replace: True to take over from a gateway that runs; without it only from workers that have lost
        their supervisor.
    :raises OSError: if another gateway uses the directory and hands nothing over, or if it cannot be locked.
    """

    def __init__(self, state_dir: str, *, replace: bool) -> None:
        self._folder = directory(state_dir)
        self._before: list[Predecessor] = []
        self._server: HandoverServer | None = None
        self._activated = passed_by_systemd()
        self._lock = self._claim(state_dir, replace=replace)
        # Not the latch that ends the previous term: then the workers of a successor that was killed, and have
        # not noticed it yet, would begin with those of the next one.
        self.term = Term() if self._before else Term.begun()
        """When the workers of this gateway accept clients: not before the previous ones drain."""
        self.is_replaced = False
        """True once another gateway serves in the place of this one."""
        if self._before:
            pids = [one.pid for one in self._before]
            log.info("taking over listening sockets", extra={"pids": pids, "listeners": self._count})

    def _claim(self, state_dir: str, *, replace: bool) -> StateLock:
        """Lock the directory, or share the lock of the gateway that hands over."""
        lock = StateLock.take(self._folder)
        if lock is None and not replace:
            raise _in_use(state_dir, self._folder, "end it first, or replace it with --take-over")
        self._before = predecessors(self._folder, replace=replace)
        handed = [one.lock for one in self._before if one.lock is not None]
        lock = lock or (handed[0] if handed else StateLock.take(self._folder))  # it may have ended just now
        if lock is None:
            self._release()
            reason = "it hands nothing over: it starts, hands over to another one, or hangs"
            raise _in_use(state_dir, self._folder, f"{reason}. Try again, or end it first")
        return lock

    @property
    def _count(self) -> int:
        return sum(len(one.sockets) for one in self._before)

    @property
    def replaces_supervisor(self) -> bool:
        """True while the previous gateway's supervisor answers on the sockets that it has handed over."""
        return any(one.lock is not None for one in self._before)

    def own(self) -> Inherited:
        """Sockets that listeners of the supervisor may use."""
        return Inherited(self._for("") + self._dup_activated())

    def workers(self, brokers: Sequence[str]) -> Mapping[str, Sequence[tuple[str, socket]]]:
        """Sockets that listeners of each broker's worker may use."""
        return {broker: self._for(broker) + self._dup_activated() for broker in brokers}

    def _for(self, broker: str) -> list[tuple[str, socket]]:
        # Workers of one broker that have lost their supervisor hand over the same sockets.
        different = {
            (name, bound.getsockname()): bound
            for one in self._before
            for owner, name, bound in one.sockets
            if owner == broker
        }
        return [(name, duplicate(bound)) for (name, _), bound in different.items()]

    def _dup_activated(self) -> list[tuple[str, socket]]:
        return [(f"systemd-{index}", duplicate(bound)) for index, bound in enumerate(self._activated)]

    def begin(self, offer: Callable[[], Offered | None], replaced: Callable[[], None]) -> None:
        """Make the previous processes drain, and the workers of this gateway accept clients.

        :param offer: gives what this gateway listens on.
        :param replaced: called once another gateway serves in its place.
        """
        for one in self._before:
            # Before these workers begin: two gateways would take clients from the same queues.
            one.retire()
        self.term.begins.set()
        # Only now: so far, the previous gateway is the one that an operator would have to end.
        self._lock.sign()
        self._release()
        notify(f"READY=1\nMAINPID={os.getpid()}")
        try:
            self._server = server = HandoverServer(
                self._folder, SUPERVISOR, offer, self.term.ends, self._lock
            )
        except OSError as error:
            log.warning("no other gateway can take over from this one: %s", error)
            return

        def retire() -> None:
            pid = server.successor_pid
            log.warning("another gateway serves from now on; draining", extra={"pid": pid})
            self.is_replaced = True
            notify(f"MAINPID={pid}")
            replaced()

        self.term.ends.when_set(retire)

    def close(self) -> None:
        """Make the workers of this gateway drain, and let another one use the directory.

        Previous processes that were not retired continue.
        """
        self._release()
        if self._server is not None:
            self._server.close()
            # Before it is set, as `retire` would take that for a replacement.
            self.term.ends.ignore()
        self.term.ends.set()
        # Last: another gateway may start as soon as it is free.
        self._lock.release()

    def _release(self) -> None:
        for one in self._before:
            one.release()
        self._before = []
        for bound in self._activated:
            bound.close()
        self._activated = []


def _in_use(state_dir: str, folder: Path, remedy: str) -> OSError:
    text = f"another gateway (process {owner(folder)}) uses state_dir {state_dir}: {remedy}"
    return OSError(errno.EBUSY, text)


def notify(state: str, flags: int = 0) -> None:
    """Notify the service manager, if one is configured (sd_notify).

    :param flags: of sendto(2); with MSG_DONTWAIT nothing is sent while the manager is behind.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        # A manager that is gone or behind is no reason to stop serving; `@` stands for an abstract address.
        with suppress(OSError), socket(AF_UNIX, SOCK_DGRAM) as line:
            line.sendto(state.encode(), flags, "\0" + address[1:] if address.startswith("@") else address)
