"""Marks that processes of one machine share: each sees at once when one of them is set, and it stays set."""

import asyncio
import os
import select
from collections.abc import Callable
from dataclasses import dataclass, field


class Latch:
    """A mark that any process which has its descriptor can set, once and for good (an eventfd: Linux only).

    It does not end with the process that made it, so it works when that one has been killed.

    :param descriptor: of an existing one, owned from here on; a new one if None.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        fresh = os.EFD_CLOEXEC | os.EFD_NONBLOCK
        self._descriptor = os.eventfd(0, fresh) if descriptor is None else descriptor

    def fileno(self) -> int:
        """The descriptor, which becomes readable when the latch is set; it must never be read."""
        return self._descriptor

    def set(self) -> None:
        """Set it in all processes; idempotent."""
        os.eventfd_write(self._descriptor, 1)

    @property
    def is_set(self) -> bool:
        """Whether a process has set it."""
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        return bool(poller.poll(0))

    def when_set(self, call: Callable[[], None]) -> None:
        """Call once on the running event loop, when it is set or at once if it is."""
        loop = asyncio.get_running_loop()

        def fire() -> None:
            loop.remove_reader(self._descriptor)
            call()

        loop.add_reader(self._descriptor, fire)

    def ignore(self) -> None:
        """Do not make the call of `when_set`; idempotent."""
        asyncio.get_running_loop().remove_reader(self._descriptor)

    def close(self) -> None:
        """Release it in this process."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True)
class Term:
    """When the workers of one gateway accept clients: from `begins` until `ends`.

    All of them share both latches, also those that are started later or have lost their supervisor. `ends` is
    handed to the next gateway, so that it can retire workers whose supervisor is dead.
    """

    begins: Latch = field(default_factory=Latch)
    ends: Latch = field(default_factory=Latch)

    @classmethod
    def begun(cls) -> "Term":
        """A term that has begun, as no gateway was there before."""
        term = cls()
        term.begins.set()
        return term
