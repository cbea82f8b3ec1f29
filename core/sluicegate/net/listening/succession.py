"""The hand-over of listening sockets from the previous gateway, and when that one drains."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
from sluicegate.net.listening.sockets import Inherited, passed_by_systemd

log = logging.getLogger(__name__)


class Succession:
    """Between the processes before this gateway and the gateway after it.

    :param state_dir: the directory that all of them share.
    :param replace: True to take over from a gateway that runs; without it only from workers that have lost
        their supervisor.
    """

    def __init__(self, state_dir: str, *, replace: bool) -> None:
        self._place = directory(state_dir)
        self._before: list[Predecessor] = predecessors(self._place, replace=replace)
        self._activated = passed_by_systemd()
        self._server: HandoverServer | None = None
        self.is_replaced = False
        """True once another gateway serves in the place of this one."""
        if self._before:
            pids = [one.pid for one in self._before]
            log.info("taking over listening sockets", extra={"pids": pids, "listeners": self._count})

    @property
    def _count(self) -> int:
        return sum(len(one.sockets) for one in self._before)

    def own(self) -> Inherited:
        """Sockets that listeners of the supervisor may use."""
        return Inherited(self._for("") + self._dup_activated())

    def workers(self, brokers: Sequence[str]) -> Mapping[str, Sequence[tuple[str, socket]]]:
        """Sockets that listeners of each broker's worker may use."""
        return {broker: self._for(broker) + self._dup_activated() for broker in brokers}

    def _for(self, broker: str) -> list[tuple[str, socket]]:
        return [
            (name, duplicate(bound))
            for one in self._before
            for owner, name, bound in one.sockets
            if owner == broker
        ]

    def _dup_activated(self) -> list[tuple[str, socket]]:
        return [(f"systemd-{place}", duplicate(bound)) for place, bound in enumerate(self._activated)]

    def begin(self, offer: Callable[[], Offered | None], replaced: Callable[[], None]) -> None:
        """Make the previous processes drain, as this gateway accepts clients now.

        :param offer: gives what this gateway listens on.
        :param replaced: called once another gateway serves in its place.
        """
        self._finish(Predecessor.retire)
        notify(f"READY=1\nMAINPID={os.getpid()}")

        def retire(pid: int) -> None:
            log.warning("another gateway serves from now on; draining", extra={"pid": pid})
            self.is_replaced = True
            notify(f"MAINPID={pid}")
            replaced()

        try:
            self._server = HandoverServer(self._place, SUPERVISOR, offer, retire)
        except OSError as error:
            log.warning("no other gateway can take over from this one: %s", error)

    def close(self) -> None:
        """Stop offering; previous processes that were not replaced continue."""
        self._finish(Predecessor.leave)
        if self._server is not None:
            self._server.close()

    def _finish(self, part: Callable[[Predecessor], None]) -> None:
        for one in self._before:
            part(one)
            for _, _, bound in one.sockets:
                bound.close()
        self._before = []
        for bound in self._activated:
            bound.close()
        self._activated = []


def notify(state: str, flags: int = 0) -> None:
    """Notify the service manager, if one is configured (sd_notify).

    :param flags: of sendto(2); with MSG_DONTWAIT nothing is sent while the manager is behind.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with suppress(OSError), socket(AF_UNIX, SOCK_DGRAM) as line:
            line.sendto(state.encode(), flags, "\0" + address[1:] if address.startswith("@") else address)
