"""A thread's stack is sampled from another thread."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread, get_ident

import pytest
from tests.waiting import LONG_S, until

from sluicegate.processes.stacks import frames_in, stack_of

_WRITTEN = """\
Thread 0x00007f1c2d5ff6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/opt/a place/acme.py", line 7 in <lambda>

Current thread 0x00007f1c2df14740 (most recent call first):
  File "/opt/acme.py", line 9 in check
"""


@contextmanager
def waiting(call: object = None) -> Iterator[int]:
    """A thread that waits outside of Python; its identifier."""
    begins, ends = Event(), Event()

    def waits() -> None:
        begins.set()
        ends.wait(LONG_S)

    thread = Thread(target=call(waits) if callable(call) else waits)
    thread.start()
    begins.wait(LONG_S)
    try:
        assert thread.ident is not None
        yield thread.ident
    finally:
        ends.set()
        thread.join()


def test_frames_are_read_from_what_faulthandler_writes() -> None:
    assert frames_in(_WRITTEN) == [
        ("/usr/lib/python3.11/threading.py", 320, "wait"),
        ("/opt/a place/acme.py", 7, "<lambda>"),
        ("/opt/acme.py", 9, "check"),
    ]


def test_a_thread_that_waits_is_in_the_function_that_waits() -> None:
    with waiting() as thread:
        until(lambda: stack_of(thread, {"threading"}), "it waits")
        (at,) = stack_of(thread, {"tests"})
    assert at.startswith(f"{__name__}.waits:")


def test_frames_of_other_packages_are_left_out() -> None:
    with waiting() as thread:
        assert stack_of(thread, ()) == []
        assert stack_of(get_ident() + 1, {"tests"}) == []


def test_a_module_of_any_path_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "größe" / "acme_paths.py"
    path.parent.mkdir()
    path.write_text("def calls(work):\n    return lambda: work()\n")
    spec = importlib.util.spec_from_file_location("acme_paths", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "acme_paths", module)
    spec.loader.exec_module(module)
    with waiting(module.calls) as thread:
        assert stack_of(thread, {"acme_paths"}) == ["acme_paths.<lambda>:2"]


def test_without_a_descriptor_there_is_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> tuple[int, int]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pipe", full)
    with waiting() as thread:
        assert stack_of(thread, {"tests"}) == []


def test_many_frames_are_cut_to_the_innermost() -> None:
    def deep(levels: int, work: object) -> object:
        return (lambda: deep(levels - 1, work)()) if levels else work  # type: ignore[operator]

    with waiting(lambda work: deep(20, work)) as thread:
        stack = stack_of(thread, {"tests"})
    assert len(stack) == 6
    assert stack[0].startswith(f"{__name__}.waits:")
