"""Which policies a configuration file had last, so that the history tells what changed in it."""

import json
import os
from pathlib import Path

from sluicegate.host.private_files import make_folder, replace_file
from sluicegate.model import LEVELS, PolicyValue
from sluicegate.store.policy_store import Key, Values

NAME = "file-policies.json"
"""Name of the file in the state directory."""
_FORMAT = 1


class FileHistory:
    """The last policies of the configuration file of a gateway, kept over restarts.

    :param state_dir: the gateway's state directory.
    :param file: path of the configuration file; what was kept for another one does not count.
    """

    def __init__(self, state_dir: str, file: str) -> None:
        self._path = Path(state_dir) / NAME
        self._file = os.path.abspath(file)

    def kept(self) -> dict[Key, PolicyValue] | None:
        """What was kept; None if nothing was, or it cannot be read."""
        try:
            kept = json.loads(self._path.read_bytes())
            if (kept["format"], kept["file"]) != (_FORMAT, self._file):
                return None
            return {Key(LEVELS[level], *rest): value for level, *rest, value in kept["policies"]}
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def keep(self, values: Values) -> None:
        """Keep the policies that the file has now.

        :raises OSError: if they cannot be written; the previous ones stay.
        """
        make_folder(self._path.parent)
        rows = [[key.level.label, *key[1:], value] for key, value in values.items()]
        content = {"format": _FORMAT, "file": self._file, "policies": rows}
        replace_file(self._path, json.dumps(content))
