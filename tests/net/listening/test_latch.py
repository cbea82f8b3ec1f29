"""Marks that are seen by all who share them, in this process or another."""

import asyncio
import os
import subprocess
import sys

from tests.gateway.lab import on_uvloop
from tests.waiting import until_so

from sluicegate.net.listening.latch import Latch, Term


def test_a_latch_that_another_process_has_set_stays_set_after_its_end() -> None:
    latch = Latch()
    copy = Latch(os.dup(latch.fileno()))
    assert [latch.is_set, copy.is_set] == [False, False]
    program = "import os, sys; os.eventfd_write(int(sys.argv[1]), 1)"
    number = latch.fileno()
    subprocess.run([sys.executable, "-c", program, str(number)], pass_fds=[number], check=True)
    assert [latch.is_set, copy.is_set] == [True, True]
    latch.set()
    latch.close()
    assert copy.is_set
    copy.close()


@on_uvloop
async def test_a_latch_calls_once_it_is_set() -> None:
    latch, calls = Latch(), list[str]()
    latch.when_set(lambda: calls.append("first"))
    await asyncio.sleep(0)
    assert calls == []
    latch.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert calls == ["first"]
    latch.when_set(lambda: calls.append("at once"))
    await until_so(lambda: len(calls) == 2)
    latch.when_set(lambda: calls.append("never"))
    latch.ignore()
    for _ in range(5):
        await asyncio.sleep(0)
    assert calls == ["first", "at once"]
    latch.close()


def test_a_term_begins_later_only_if_a_gateway_was_there_before() -> None:
    for term, has_begun in ((Term(), False), (Term.begun(), True)):
        assert term.begins.is_set == has_begun
        assert not term.ends.is_set
        term.begins.close()
        term.ends.close()
