"""Shared limits of the workers of one broker where no store is configured: the supervisor keeps them.

A worker asks over its line to the supervisor, which answers at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import signature
from itertools import count
from types import GenericAlias
from typing import Any, Final, Protocol, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

from sluicegate.budgets import (
    OFF_PATH_S,
    BudgetStore,
    BudgetStoreError,
    Grant,
    Member,
    MemoryBudgetStore,
    Place,
    Request,
    SameNameError,
    Standing,
    Turn,
    check_size,
)
from sluicegate.config.models import Budgets

KIND: Final = "budget"
"""Of messages in both directions."""
OF_WORKERS: Final = Budgets(url="supervisor:", timeout=50, lease=400)
"""What holds for limits that the supervisor keeps; no message waits for it, so it may take its time.

Nearly all of what a call costs is that it wakes two processes, so leases are longer than a network's."""
_GONE: Final = "the supervisor of this worker is gone"


class Send(Protocol):
    """Sends a message to the other end."""

    def __call__(self, kind: str, **content: object) -> None:
        """Send it; what a dead peer does not accept is lost."""


def _types(method: Callable[..., Awaitable[Any]]) -> tuple[list[TypeAdapter[Any]], TypeAdapter[Any]]:
    hints = get_type_hints(method)
    names = list(signature(method).parameters)[1:]
    return [_adapter(hints[name]) for name in names], _adapter(hints["return"])


def _adapter(hint: Any) -> TypeAdapter[Any]:
    # A sequence of any kind is validated by Python code, which takes several times as long as a list.
    listed: Any = GenericAlias(list, get_args(hint))
    return TypeAdapter(listed if get_origin(hint) is Sequence else hint)


_METHODS: Final = {
    method.__name__: _types(method)
    for method in (
        BudgetStore.reserve,
        BudgetStore.hold,
        BudgetStore.release,
        BudgetStore.taken,
        BudgetStore.join,
        BudgetStore.leave,
        BudgetStore.members,
        BudgetStore.attend,
        BudgetStore.publish,
        BudgetStore.standings,
    )
}
"""Of each call the types of what it is given, and of its answer."""


class BudgetServer:
    """The supervisor's end of one worker's line.

    :param store: the worker's view of what all of them share.
    :param send: sends to the worker.
    """

    def __init__(self, store: MemoryBudgetStore, send: Send) -> None:
        self._store = store
        self._send = send

    async def answer(self, message: Mapping[str, Any]) -> None:
        """Answer a call.

        :raises ValueError: if it is none.
        """
        number, call = message["number"], message["call"]
        if call not in _METHODS:
            raise ValueError(f"call {call!r} of a budget store, expected one of {', '.join(_METHODS)}")
        given = [
            types.validate_python(value)
            for types, value in zip(_METHODS[call][0], message["given"], strict=True)
        ]
        try:
            answer = await getattr(self._store, call)(*given)
        except BudgetStoreError as error:
            is_name = isinstance(error, SameNameError)
            self._send(KIND, number=number, error=str(error), same_name=is_name)
        else:
            self._send(KIND, number=number, answer=answer)

    async def ended(self) -> None:
        """The worker has ended, so it is no member any more, and leads no task."""
        await self._store.leave()


class LineBudgetStore:
    """A worker's end: a `BudgetStore` that the supervisor keeps.

    :param send: sends to the supervisor.
    :param timeout_s: how long a call waits for its answer, in seconds.
    """

    def __init__(self, send: Send, timeout_s: float = OF_WORKERS.timeout / 1000) -> None:
        self._send = send
        self._timeout_s = timeout_s
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._is_lost = False

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take an answer; one that comes too late is dropped."""
        asked = self._asked.get(message["number"])
        if asked is not None and not asked.done():
            asked.set_result(message)

    def lost(self) -> None:
        """There is no supervisor any more: every call fails at once."""
        self._is_lost = True
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(BudgetStoreError(_GONE))

    async def reserve(self, requests: Sequence[Request]) -> Sequence[Grant]:
        """Lease tokens."""
        grants: Sequence[Grant] = await self._call("reserve", requests)
        return grants

    async def hold(self, places: Sequence[Place]) -> Sequence[int]:
        """Take places."""
        taken: Sequence[int] = await self._call("hold", places)
        return taken

    async def release(self, places: Sequence[Place]) -> None:
        """Free places."""
        await self._call("release", places)

    async def taken(self, limits: Sequence[str]) -> Sequence[int]:
        """How many places of each limit are taken."""
        taken: Sequence[int] = await self._call("taken", limits)
        return taken

    async def join(self, member: Member) -> int:
        """Become a member, or stay one."""
        try:
            members: int = await self._call("join", member)
        except _SameNameThereError:
            raise SameNameError(member) from None
        return members

    async def leave(self) -> None:
        """Stop being a member, and leading tasks."""
        await self._call("leave")

    async def members(self) -> Sequence[Member]:
        """All members."""
        members: Sequence[Member] = await self._call("members")
        return members

    async def attend(self, task: str, report: str, lease: float) -> Turn:
        """Report what this holder sees for a task, and take the lead if no other holder has it."""
        check_size(task, report)
        turn: Turn = await self._call("attend", task, report, lease, timeout_s=OFF_PATH_S)
        return turn

    async def publish(self, task: str, findings: str) -> bool:
        """Say what came of a task."""
        check_size(task, findings)
        is_kept: bool = await self._call("publish", task, findings, timeout_s=OFF_PATH_S)
        return is_kept

    async def standings(self) -> Sequence[Standing]:
        """How all limits stand."""
        standings: Sequence[Standing] = await self._call("standings")
        return standings

    async def close(self) -> None:
        """Ask no more."""
        self.lost()

    async def _call(self, call: str, *given: object, timeout_s: float = 0) -> Any:
        timeout_s = max(timeout_s, self._timeout_s)
        if self._is_lost:
            raise BudgetStoreError(_GONE)
        number = next(self._numbers)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        self._send(KIND, number=number, call=call, given=given)
        try:
            async with asyncio.timeout(timeout_s):
                message = await asked
        except TimeoutError:
            raise BudgetStoreError(f"the supervisor did not answer within {timeout_s * 1000:g} ms") from None
        finally:
            del self._asked[number]
        if (error := message.get("error")) is not None:
            raise (_SameNameThereError if message["same_name"] else BudgetStoreError)(error)
        return _METHODS[call][1].validate_python(message["answer"])


class _SameNameThereError(BudgetStoreError):
    """Another process has the same name."""


def store_of(start: Mapping[str, Any], send: Send) -> LineBudgetStore | None:
    """The budget store of a worker that has siblings; None if there are none, or another store is configured.

    :param start: the supervisor's first message.
    :param send: sends to the supervisor.
    """
    if start.get("workers", 1) == 1 or start["config"].get("budgets"):
        return None
    return LineBudgetStore(send)
