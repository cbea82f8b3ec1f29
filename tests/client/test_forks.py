"""Clients and policies in the child of a fork."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from time import monotonic_ns

import pytest
from tests.client.test_open_policies import new_file

from sluicegate.client.open_policies import OpenPolicies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.sending import Publisher
from sluicegate.model import Message
from sluicegate.runtime.plugins import CHOICE

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "kafka")


def in_child(call: Callable[[], None]) -> None:
    """Make a call in a forked process; its error is that of the test."""
    child = os.fork()
    if not child:
        try:
            call()
        except BaseException:  # noqa: BLE001 - it must not get into the test runner
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def publisher_of(opened: OpenPolicies) -> Publisher:
    return Publisher(PolicedClient(opened.engine, "User:ann", "shop", None), "orders.eu", Message)


def test_a_client_of_before_a_fork_fails_clearly_and_a_new_one_has_its_own_policies(tmp_path: Path) -> None:
    file = new_file(tmp_path, "kafka", {"max_publish_rate": 1000, "max_message_size": 10})
    opened = OpenPolicies(file, "kafka")
    publisher = publisher_of(opened)
    publisher.send(1, monotonic_ns(), ())
    busy, done = Event(), Event()

    def hold_lock() -> None:
        while not done.is_set():
            with opened.engine.lock:
                busy.set()

    holder = Thread(target=hold_lock)
    holder.start()
    busy.wait()

    def use() -> None:
        with pytest.raises(RuntimeError, match="before a fork: open client and policies in this process"):
            publisher.send(1, monotonic_ns(), ())
        opened.close()
        opened.engine.close()
        own = OpenPolicies(file, "kafka")
        assert own.engine is not opened.engine
        publisher_of(own).send(1, monotonic_ns(), ())
        own.close()

    in_child(use)
    done.set()
    holder.join()
    publisher.send(1, monotonic_ns(), ())
    opened.close()
