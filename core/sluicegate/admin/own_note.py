"""The note that this gateway leaves about itself."""

import json
import logging
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from sluicegate.admin.running_note import FORMAT, NAME, RunningNote, environment_mark, read_note, started
from sluicegate.host.private_files import replace_file

log = logging.getLogger(__name__)


class OwnNote:
    """The note of this process in its state directory.

    :param file: the configuration file.
    :param state_dir: where the note is left.
    :param environ: environment that overrides the file.
    """

    def __init__(self, file: str, state_dir: str, environ: Mapping[str, str]) -> None:
        self.key = secrets.token_hex(16)
        """For `file_mark`."""
        self._file = file
        self._path = Path(state_dir) / NAME
        self._environ = environ

    def leave(self, address: tuple[str, int], certificate: str = "") -> None:
        """Replace the note of the gateway before; without a note, commands read the file.

        :param address: of the admin endpoint; if no loopback address leads there, no note is left.
        :param certificate: the PEM file with its certificate; empty for plain HTTP.
        """
        pid = os.getpid()
        host = _loopback(address[0])
        try:
            if host is None:
                # A stale note would send commands to the former address, where another program may listen.
                self._path.unlink(missing_ok=True)
                return
            mark = environment_mark(self._environ)
            file = os.path.abspath(self._file)
            trusted = os.path.abspath(certificate) if certificate else ""
            note = RunningNote(file, pid, started(pid) or 0, host, address[1], self.key, mark, trusted)
            replace_file(self._path, json.dumps({"format": FORMAT, **note._asdict()}))
        except OSError as error:
            log.warning("cannot note in state_dir where this gateway is: %s", error)

    def remove(self) -> None:
        """Remove it, unless another gateway has left its own in its place."""
        note = read_note(self._path)
        if note is not None and note.pid == os.getpid():
            with suppress(OSError):
                self._path.unlink()


def _loopback(host: str) -> str | None:
    """The loopback address that leads to a listener; None if there is none."""
    address = ip_address(host)
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "::1"
    return host if address.is_loopback else None
