"""What the test of each system's cells has in common."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
import uvloop
from tests.matrix.cells import Cell
from tests.matrix.playing import Matrix, System
from tests.real.needs import need

from sluicegate.demo.scene import Verdict


class Played:
    """Cells of a system that a test asks for, one by one.

    :param matrix: its gates serve.
    """

    def __init__(self, matrix: Matrix, runner: asyncio.Runner) -> None:
        self._matrix, self._runner = matrix, runner

    def assert_right(self, cell: Cell) -> None:
        """Fail if a cell shows something else than its policy says.

        It is skipped where its library is not there. Clients that never came up to a rate say nothing of it:
        the cell is skipped then, too, with what they did.
        """
        need(self._matrix.missing(cell))
        observation = self._runner.run(self._matrix.observe(cell))
        print(observation.text)
        if observation.verdict is Verdict.UNSATURATED:
            pytest.skip(observation.text)
        assert observation.verdict is Verdict.RIGHT, f"{observation.text}\n{observation.error}"


def played(
    request: pytest.FixtureRequest, started: AbstractAsyncContextManager[System], directory: Path
) -> Iterator[Played]:
    """The cells that were collected for a module, with the gates that they need.

    :param started: the system, which runs for as long as the cells are played.
    """
    cells = [
        item.callspec.params["cell"]  # type: ignore[attr-defined]
        for item in request.session.items
        if item.path == request.path
    ]

    async def start(stack: AsyncExitStack) -> Matrix:
        system = await stack.enter_async_context(started)
        return await stack.enter_async_context(Matrix(system, cells, directory))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        stack = AsyncExitStack()
        try:
            yield Played(runner.run(start(stack)), runner)
        finally:
            runner.run(stack.aclose())
