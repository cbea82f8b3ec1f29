"""Gives modules of an earlier tree the names that they have in this one, where their room had another name.

It does so when it is imported, which must come before anything is imported by its new name.
"""

import importlib
import sys
from importlib.util import find_spec

_ROOM = "sluicegate.gateway"
"""The room that `net`, `processes` and `runtime` have been made of."""
_MOVED = {
    "sluicegate.net": _ROOM,
    "sluicegate.net.connections": f"{_ROOM}.connections",
    "sluicegate.net.relaying": _ROOM,
    "sluicegate.processes": _ROOM,
    "sluicegate.processes.collecting": f"{_ROOM}.collecting",
    "sluicegate.processes.worker": f"{_ROOM}.worker",
    "sluicegate.runtime": _ROOM,
    "sluicegate.runtime.log_sink": f"{_ROOM}.log_sink",
    "sluicegate.runtime.plugins": f"{_ROOM}.plugins",
}


if find_spec("sluicegate.net") is None:
    importlib.import_module(f"{_ROOM}.relay")
    for new, old in _MOVED.items():
        if find_spec(old) is not None:
            sys.modules[new] = importlib.import_module(old)
