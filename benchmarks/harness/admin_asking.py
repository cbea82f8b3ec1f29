"""Asks a gateway's admin endpoint, as its own user.

As a program (`python -m benchmarks.harness.admin_asking NOTE PATH...`) it asks for these paths once a second
until it is killed, and prints `standing` after the first time.
"""

import http.client
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluicegate.admin.running_note import RunningNote, own_token, read_note

_EACH_S = 1.0


class Asking:
    """Makes requests on one connection, and tells how long they take, in ms.

    :param note: of the gateway.
    """

    def __init__(self, note: RunningNote) -> None:
        self._connection = http.client.HTTPConnection(note.host, note.port)
        token = own_token(note.key)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def __call__(self, method: str, path: str, body: Mapping[str, object] | None = None) -> float:
        """Make a request that must succeed."""
        began = time.perf_counter()
        sent = None if body is None else json.dumps(body)
        self._connection.request(method, path, sent, self._headers)
        response = self._connection.getresponse()
        content = response.read()
        assert response.status == http.HTTPStatus.OK, content
        return (time.perf_counter() - began) * 1000


def note_in(path: Path) -> RunningNote:
    """The note of a gateway that serves.

    :param path: of the note.
    :raises RuntimeError: if there is none.
    """
    note = read_note(path)
    if note is None:
        raise RuntimeError(f"{path} is not the note of a gateway")
    return note


def main(note: str, paths: Sequence[str]) -> None:
    """Ask until killed."""
    ask, standing = Asking(note_in(Path(note))), False
    while True:
        began = time.monotonic()
        for path in paths:
            ask("GET", path)
        if not standing:
            print("standing", flush=True)
            standing = True
        time.sleep(max(0.0, _EACH_S - (time.monotonic() - began)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
