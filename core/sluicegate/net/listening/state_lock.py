"""The lock of a state directory, which one gateway at a time holds."""

import fcntl
import logging
import os
from pathlib import Path
from typing import Self

from sluicegate.host.private_files import make_folder, opener

log = logging.getLogger(__name__)

_NAME = "lock"
_LONGEST_PID = 20


class StateLock:
    """A lock (flock) that the kernel releases when the last process that holds it has ended.

    A gateway hands its descriptor to the next one, so both hold it during a take-over.

    :param descriptor: of the locked file, owned from here on.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, folder: Path) -> Self | None:
        """Lock a folder, which is made if it is missing; None if another gateway holds the lock.

        :raises OSError: if the lock's file cannot be opened or locked.
        """
        path = folder / _NAME
        try:
            make_folder(folder)
            # Not emptied: until this process holds the lock, the file names the one that does.
            lock = cls(opener(os.fspath(path), os.O_RDWR | os.O_CREAT))
            try:
                fcntl.flock(lock._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.sign()
            except OSError:
                lock.release()
                raise
        except BlockingIOError:
            return None
        except OSError as error:
            raise OSError(error.errno, f"cannot lock {path}: {error.strerror}") from error
        return lock

    def fileno(self) -> int:
        """The descriptor of the locked file; -1 once it was released."""
        return self._descriptor

    def sign(self) -> None:
        """Name this process as the holder; on a full disk the lock holds without a name."""
        try:
            # One write of a fixed length overwrites an older, longer number completely.
            os.pwrite(self._descriptor, (b"%d\n" % os.getpid()).ljust(_LONGEST_PID), 0)
        except OSError as error:
            log.warning("cannot name this process in the lock of its state_dir: %s", error.strerror)

    def release(self) -> None:
        """Give it up in this process; idempotent. Others that hold it keep it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def owner(folder: Path) -> str:
    """The process id of the gateway that holds the lock; `?` if it is not written there.

    :raises OSError: if the lock's file cannot be read.
    """
    with (folder / _NAME).open("rb") as file:
        return file.read(_LONGEST_PID).decode(errors="replace").strip() or "?"
