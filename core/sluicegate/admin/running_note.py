"""The note of a running gateway in its state directory: where its admin endpoint is, and which file it has.

`sluicegate explain` finds the gateway by it, as reading a file of thousands of policies takes longer than the
answer. So this module imports little, and neither YAML nor pydantic.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

NAME = "running.json"
DEFAULT_STATE_DIR = "var/sluicegate"
OVERRIDES = "SLUICEGATE__"
"""Prefix of the variables that override the file."""
FORMAT = 1
ACTOR = "x-sluicegate-actor"
"""Header by which commands of the gateway's own user say who runs them."""
_LONGEST = 65_536
_STATE_DIR = re.compile(
    rb"^state_dir: +(?:\"([^\"\\\r\n]+)\"|'([^'\r\n]+)'|([^\s\"'#&*!|>%@`{\[,?-][^\r\n]*?))[ \t]*"
    rb"(?:[ \t]#[^\r\n]*)?\r?$",
    re.MULTILINE,
)
"""A plain `state_dir` at the top level of a file; if it is written in another way, the file is parsed."""
_STATE_DIR_KEY = re.compile(rb"^[\"']?state_dir[\"']?[ \t]*:", re.MULTILINE)
_BOM = b"\xef\xbb\xbf"
_STARTED = 19
"""The position of a process's start time in /proc/PID/stat, counted behind the name."""


class RunningNote(NamedTuple):
    """What a gateway notes about itself."""

    file: str
    """Absolute path of its configuration file."""
    pid: int
    started: int
    """When the process was started, in clock ticks since the system was; a later one may have the same id."""
    host: str
    """Loopback address of the admin endpoint."""
    port: int
    key: str
    """For `file_mark`."""
    environment: str
    """From `environment_mark`."""
    certificate: str = ""
    """Absolute path of the PEM file with the endpoint's certificate, which is the one to trust; empty for
    plain HTTP."""


def find_note(text: bytes, file: str, environ: Mapping[str, str]) -> tuple[str, RunningNote] | None:
    """The gateway that runs with a file, and its state directory; None if there is none.

    A note counts if only this user could write it (for root: the note's owner), and its process still runs.

    :param text: of the file.
    :param file: its path.
    """
    state_dir = _state_dir(text, environ)
    note = read_note(Path(state_dir) / NAME) if state_dir is not None else None
    if state_dir is None or note is None or note.file != os.path.abspath(file):
        return None
    return (state_dir, note) if started(note.pid) == note.started else None


def environment_mark(environ: Mapping[str, str]) -> str:
    """Equal iff the variables that override the file are; empty without any."""
    overrides = {name: environ[name] for name in sorted(environ) if name.startswith(OVERRIDES)}
    return hashlib.sha256(repr(overrides).encode(errors="surrogateescape")).hexdigest() if overrides else ""


def digest_of(text: bytes) -> str:
    """The digest of a file, as `Loaded.file_digest` has it."""
    return hashlib.sha256(text.removeprefix(_BOM)).hexdigest()


def file_mark(digest: str, key: str) -> str:
    """The digest of a file for those who have the key, so that no other can try what the file may contain."""
    return hashlib.blake2b(digest.encode(), key=bytes.fromhex(key), digest_size=16).hexdigest()


def own_token(key: str) -> str:
    """The token of the gateway's own user.

    :param key: of the gateway's note, which that user alone can read.
    """
    return hashlib.blake2b(b"admin", key=bytes.fromhex(key), digest_size=32).hexdigest()


def _state_dir(text: bytes, environ: Mapping[str, str]) -> str | None:
    """The `state_dir` of a file; None if it can only be told by parsing it."""
    override = environ.get(f"{OVERRIDES}STATE_DIR")
    if override is not None:
        text = b"state_dir: " + os.fsencode(override.strip())
    with suppress(ValueError, AttributeError):
        if text.startswith(b"{"):  # JSON, or YAML that only parsing tells from it
            return str(json.loads(text).get("state_dir", DEFAULT_STATE_DIR))
        match = _STATE_DIR.search(text)
        if match is not None:
            return next(part for part in match.groups() if part is not None).decode()
        return None if _STATE_DIR_KEY.search(text) else DEFAULT_STATE_DIR
    return None


def read_note(path: Path) -> RunningNote | None:
    """Read a note, if it is one that only its owner could write: this user, or for root any."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        # Where others may write, one could put a link there, or a pipe at which opening it would hang.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            # Of what is open: the path may lead to another file by now.
            status = os.fstat(descriptor)
            is_private = stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077
            if not is_private or os.geteuid() not in (0, status.st_uid):
                return None
            noted = json.loads(file.read(_LONGEST))
        if noted.pop("format") == FORMAT:
            return RunningNote(**noted)
    return None


def started(pid: int) -> int | None:
    """When a process was started; None if there is none of this id."""
    with suppress(OSError, ValueError, IndexError):
        # Behind the last bracket: the name before it may itself have brackets and blanks.
        return int(Path(f"/proc/{int(pid)}/stat").read_bytes().rpartition(b")")[2].split()[_STARTED])
    return None
