"""The process of a Python client library: `python -c ... FAMILY`, steered in lines of JSON.

Each line asks for one thing by a number of its own: `producer`, `consumer`, `publish`, `receive`,
`acknowledge` or `close`. The answer carries that number, which is also the name of what was made. The
programs in other languages (`java/`, `deploy/pulsar-go`) talk in the same lines.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from importlib import import_module
from itertools import count
from typing import Any

from sluicegate.demo.clients import DemoClient, Message, RefusedError, words
from sluicegate.host.children import commands, say

Command = Mapping[str, Any]
_THREADS = 100
"""More than the event loop has by default: libraries that block are called in threads."""


class Serving:
    """Does what the lines say.

    :param connect: the library's `clients`.
    """

    def __init__(self, connect: Any, stack: AsyncExitStack) -> None:
        self._connect, self._stack = connect, stack
        self._clients: dict[str, DemoClient] = {}
        self._made: dict[int, Any] = {}
        self._numbers = count()
        self._messages: dict[int, Message] = {}

    async def answer(self, command: Command) -> None:
        """Do one thing and say what came of it."""
        try:
            told = await getattr(self, f"_{command['do']}")(command)
        except RefusedError as error:
            told = {"refused": str(error)}
        except Exception as error:  # noqa: BLE001 - told to the test
            told = {"failed": words(error)}
        say({"id": command["id"], **told})

    async def _client(self, address: str) -> DemoClient:
        if address not in self._clients:
            self._clients[address] = await self._stack.enter_async_context(self._connect(address))
        return self._clients[address]

    async def _producer(self, command: Command) -> Command:
        client = await self._client(command["address"])
        made = client.producer(command["topic"], command["name"], reliable=command["reliable"])
        self._made[command["id"]] = await made
        return {}

    async def _consumer(self, command: Command) -> Command:
        client = await self._client(command["address"])
        how = {name: command[name] for name in ("exclusive", "alone")}
        made = client.consumer(command["topic"], command["subscription"], command["name"], **how)
        self._made[command["id"]] = await made
        return {}

    async def _publish(self, command: Command) -> Command:
        await self._made[command["of"]].publish(command["size"], **command["asked"])
        return {}

    async def _receive(self, command: Command) -> Command:
        message = await self._made[command["of"]].receive(command["within_s"])
        if message is None:
            return {"message": None}
        number = next(self._numbers)
        self._messages[number] = message
        return {"message": [message.size, message.published_ms, message.received_ms, number]}

    async def _acknowledge(self, command: Command) -> Command:
        await self._made[command["of"]].acknowledge(self._messages.pop(command["message"]))
        return {}

    async def _close(self, command: Command) -> Command:
        await self._made.pop(command["of"]).close()
        return {}


async def serve(family: str) -> None:
    """Do what standard input says, until it ends."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    working = set()
    async with AsyncExitStack() as stack:
        serving = Serving(import_module(f"tests.matrix.clients.{family}").clients, stack)
        say({"id": 0})
        async for command in commands():
            task = asyncio.ensure_future(serving.answer(command))
            working.add(task)
            task.add_done_callback(working.discard)
        # What is left goes with the process: threads of client libraries may wait for brokers still.
        sys.stdout.flush()
        os._exit(0)
