"""Files and folders that only their owner can read or write, whatever the umask.

The files of a gateway show who publishes what to which topic, so only its own user may read them.
"""

import os
from contextlib import suppress
from pathlib import Path

_FILE = 0o600
_FOLDER = 0o700
_OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing; one that exists keeps its mode.

    :raises OSError: if it cannot be made.
    """
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    try:
        folder.mkdir(_FOLDER)
    except FileExistsError:  # by another process, just now
        if not folder.is_dir():
            raise
    else:
        folder.chmod(_FOLDER)


def identity(file: Path | int) -> tuple[int, int] | None:
    """What tells a file from another one that takes its place; None if there is none.

    :param file: its path or its descriptor.
    :raises OSError: if it cannot be looked at.
    """
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def opener(path: str, flags: int) -> int:
    """Open a file as `open(path, "wb", opener=opener)` does, so that others never see even its beginning.

    :raises OSError: if it cannot be opened.
    """
    handle = os.open(path, flags | os.O_CLOEXEC, _FILE)
    try:
        os.fchmod(handle, _FILE)
    except BaseException:
        os.close(handle)
        raise
    return handle


def replace_file(path: Path, text: str) -> None:
    """Put a private file in the place of one that is there, so that none reads half of it.

    :raises OSError: if it cannot be written; the one before stays.
    """
    fresh = path.with_name(f".{path.name}-{os.getpid()}")
    with open(fresh, "w", opener=opener) as stream:
        stream.write(text)
    fresh.replace(path)


def make_database(path: Path) -> None:
    """Create an empty private file for SQLite; its side files get the same mode.

    Make an existing one private, with its side files, unless it belongs to another user.

    :raises OSError: if it cannot be made.
    """
    try:
        os.close(opener(os.fspath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR))
    except FileExistsError:
        # By name: to open and close it here would end SQLite's locks of this process.
        for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            with suppress(FileNotFoundError, PermissionError):
                if each.stat().st_mode & _OTHERS:
                    each.chmod(_FILE)
