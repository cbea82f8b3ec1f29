"""The main thread samples its own stack on request; in a subprocess, as a fault would hang it."""

import subprocess
import sys

import pytest
from tests.waiting import LONG_S

_TWO_AT_ONCE = """
import sys, threading
from sluicegate.processes.interrupting import interrupt_main

seen = []

def ask_from_a_thread(look):
    thread = threading.Thread(target=interrupt_main, args=(look,))
    thread.start()
    thread.join()

def nothing():
    pass

def first(frame):
    ask_from_a_thread(lambda _: seen.append("second"))
    nothing()
    seen.append("first" if frame else "no frame")

def busy():
    ask_from_a_thread(first)
    while len(seen) < 2:
        pass

{prepare}
busy()
sys.setprofile(None)
sys.settrace(None)
print(seen)
"""

_FAILING = """
import threading
from sluicegate.processes.interrupting import interrupt_main

seen = []

def ask(look):
    thread = threading.Thread(target=interrupt_main, args=(look,))
    thread.start()
    thread.join()

def fails(frame):
    seen.append("fails")
    raise ValueError("a look that fails")

ask(fails)
while not seen:
    pass
ask(lambda _: seen.append("next"))
while len(seen) < 2:
    pass
print(seen)
"""


@pytest.mark.parametrize(
    "prepare",
    ["", "sys.setprofile(lambda *_: None)", "sys.settrace(lambda *_: None)"],
    ids=["plain", "profiled", "traced"],
)
def test_two_concurrent_samples_are_both_taken(prepare: str) -> None:
    # CPython 3.11 begins a traced function again and again while a pending call waits for the one that runs.
    done = run(_TWO_AT_ONCE.format(prepare=prepare))

    assert done.stdout == "['first', 'second']\n", done.stderr


def test_sampling_continues_after_an_error() -> None:
    done = run(_FAILING)

    assert done.stdout == "['fails', 'next']\n", done.stderr
    assert "a look that fails" in done.stderr


def run(program: str) -> "subprocess.CompletedProcess[str]":
    """A program in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=LONG_S, check=False
    )
