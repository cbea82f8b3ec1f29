"""A plugin for tests: the process in which it is loaded dies or stops at a named step of its life.

The step comes from the environment: `FAULT_AT="supervisor has offered"`, `FAULT=KILL` or `STOP`. It happens
once: the file that `FAULT_FILE` names then has the process's id.
"""

import inspect
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

from sluicegate.net.connections import Connections
from sluicegate.net.listening.handover import HandoverServer, Predecessor
from sluicegate.net.listening.succession import Succession
from sluicegate.processes.child import WorkerProcess
from sluicegate.processes.worker import Worker

AT, FAULT, FILE = "FAULT_AT", "FAULT", "FAULT_FILE"
LIVES = "LIVES_FILE"
"""Gets a line when a worker begins to accept clients and when it retires: its id, the step, seconds."""
ACCEPTS, RETIRES = "accepts", "retires"


def _is_policies(worker: object, kind: str, **content: object) -> bool:
    return kind == "policies"


def _always(*arguments: object, **named: object) -> bool:
    return True


_SUPERVISOR: dict[str, tuple[type, str, str, Callable[..., bool]]] = {
    "has claimed": (Succession, "_claim", "after", _always),
    "can serve": (Succession, "begin", "before", _always),
    "has retired the old": (Predecessor, "retire", "after", _always),
    "serves": (Succession, "begin", "after", _always),
    "is asked": (HandoverServer, "_send_offer", "before", _always),
    "has offered": (HandoverServer, "_send_offer", "after", _always),
    "leaves": (Succession, "close", "before", _always),
    "has left": (Succession, "close", "after", _always),
    "has read policies": (WorkerProcess, "tell", "before", _is_policies),
    "has sent policies": (WorkerProcess, "tell", "after", _is_policies),
}
_WORKER: dict[str, tuple[type, str, str, Callable[..., bool]]] = {
    "starts": (Worker, "start", "before", _always),
    "listens": (Worker, "start", "after", _always),
    "has received policies": (Worker, "replace", "before", _always),
    "has replaced policies": (Worker, "replace", "after", _always),
    RETIRES: (Worker, "drain", "before", _always),
    "drains": (Connections, "drain", "before", _always),
    "has drained": (Connections, "drain", "after", _always),
}


def _fail() -> None:
    try:
        with Path(os.environ[FILE]).open("x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return
    os.kill(os.getpid(), getattr(signal, f"SIG{os.environ[FAULT]}"))


def _note(step: str) -> None:
    with Path(os.environ[LIVES]).open("a") as file:
        file.write(f"{os.getpid()} {step} {time.monotonic()}\n")


def _wrap(owner: type, name: str, when: str, holds: Callable[..., bool], act: Callable[[], None]) -> None:
    call = getattr(owner, name)

    def reached(now: str, *arguments: Any, **named: Any) -> None:
        if now == when and holds(*arguments, **named):
            act()

    @wraps(call)
    def plain(*arguments: Any, **named: Any) -> Any:
        reached("before", *arguments, **named)
        result = call(*arguments, **named)
        reached("after", *arguments, **named)
        return result

    @wraps(call)
    async def awaited(*arguments: Any, **named: Any) -> Any:
        reached("before", *arguments, **named)
        result = await call(*arguments, **named)
        reached("after", *arguments, **named)
        return result

    setattr(owner, name, awaited if inspect.iscoroutinefunction(call) else plain)


def _install() -> None:
    process, _, step = os.environ.get(AT, "").partition(" ")
    program = Path(sys.argv[0]).name
    if program == "worker_main.py":
        main: type = sys.modules["__main__"].WorkerMain
        if process == "worker":
            _wrap(*{**_WORKER, ACCEPTS: (main, "_accept", "after", _always)}[step], _fail)
        _wrap(main, "_accept", "before", _always, partial(_note, ACCEPTS))
        _wrap(*_WORKER[RETIRES], partial(_note, RETIRES))  # around the fault, so before it
    elif process == "supervisor":
        _wrap(*_SUPERVISOR[step], _fail)


_install()
