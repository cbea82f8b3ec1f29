"""Processes of client libraries, and a client whose producers and consumers are in such processes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count, cycle
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import LONG_S

from sluicegate.demo.clients import Message, RefusedError
from sluicegate.host.children import Child, ChildError

_ROOT = Path(__file__).parents[2]
_SILENCE_S = 24 * 3600.0
"""A process may have nothing to do for as long as the others play."""


def python_program(family: str) -> Callable[[], Sequence[str]]:
    """Gives the command of a Python library's process.

    :param family: the module below `clients` that adapts it.
    """
    run = (
        f"import asyncio, sys; sys.path.insert(0, {str(_ROOT)!r}); "
        f"from tests.matrix.clients.serving import serve; asyncio.run(serve({family!r}))"
    )
    return lambda: (sys.executable, "-c", run)


class Program(Child):
    """A process of one client library, steered in lines (`clients/serving.py` says which).

    :param name: for messages.
    :param argv: the command.
    :param log: file for what it prints on standard error.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        super().__init__(name, "", (), log)
        self.argv = list(argv)
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start it, and return once it is ready."""
        await super().__aenter__()
        await self.hear("id", LONG_S)
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        assert self._reading is not None
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await super().__aexit__(kind, error, trace)

    async def ask(self, do: str, **fields: Any) -> tuple[int, Mapping[str, Any]]:
        """Have something done.

        :return: its number, and the answer.
        :raises RefusedError: if the broker or the gate said no; with the library's own error.
        :raises RuntimeError: if it failed otherwise.
        :raises ChildError: if the process has ended.
        """
        if self._reading is None or self._reading.done():
            raise ChildError(f"{self.name} has ended; its last words: {self.last_words()}")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self.tell({"id": number, "do": do, **fields})
        told = await answer
        if "refused" in told:
            raise RefusedError(told["refused"])
        if "failed" in told:
            raise RuntimeError(f"{self.name} cannot {do}: {told['failed']}")
        return number, told

    async def _read(self) -> None:
        try:
            while True:
                told = await self.hear("id", _SILENCE_S)
                answer = self._waiting.pop(told["id"])
                if not answer.done():  # what asked may have been cancelled
                    answer.set_result(told)
        except ChildError as error:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(error)
            self._waiting.clear()


class _Remote:
    """What was made in a process."""

    def __init__(self, program: Program, number: int, forget: Callable[["_Remote"], object]) -> None:
        self._program, self._number, self._forget = program, number, forget

    async def close(self) -> None:
        """Leave."""
        self._forget(self)
        await self._program.ask("close", of=self._number)


class RemoteProducer(_Remote):
    """One producer."""

    async def publish(self, size: int, **asked: Any) -> None:
        """Publish a message."""
        await self._program.ask("publish", of=self._number, size=size, asked=asked)


class RemoteConsumer(_Remote):
    """One consumer."""

    async def receive(self, within_s: float) -> Message | None:
        """The next message."""
        _, told = await self._program.ask("receive", of=self._number, within_s=within_s)
        return Message(*told["message"]) if told["message"] else None

    async def acknowledge(self, message: Message) -> None:
        """Acknowledge it."""
        await self._program.ask("acknowledge", of=self._number, message=message.raw)


class RemoteClient:
    """Producers and consumers of the gate at an address, each in the next process of several."""

    def __init__(self, programs: Sequence[Program], address: str) -> None:
        self._programs, self._address = cycle(programs), address
        self.open: list[_Remote] = []

    async def producer(self, topic: str, name: str, *, reliable: bool = True) -> RemoteProducer:
        """A producer."""
        program = next(self._programs)
        what = {"address": self._address, "topic": topic, "name": name, "reliable": reliable}
        number, _ = await program.ask("producer", **what)
        made = RemoteProducer(program, number, self.open.remove)
        self.open.append(made)
        return made

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> RemoteConsumer:
        """A consumer."""
        program = next(self._programs)
        # Groups of Kafka are not of one topic: those of two scenes must not be the same.
        subscription = f"{subscription}-{topic.rpartition('/')[2]}"
        what = {"address": self._address, "topic": topic, "subscription": subscription, "name": name}
        number, _ = await program.ask("consumer", **what, exclusive=exclusive, alone=alone)
        made = RemoteConsumer(program, number, self.open.remove)
        self.open.append(made)
        return made


@asynccontextmanager
async def spread(programs: Sequence[Program], address: str) -> AsyncIterator[RemoteClient]:
    """A client whose producers and consumers are in these processes in turn; closed with the block."""
    client = RemoteClient(programs, address)
    try:
        yield client
    finally:
        await asyncio.gather(*(each.close() for each in list(client.open)), return_exceptions=True)
