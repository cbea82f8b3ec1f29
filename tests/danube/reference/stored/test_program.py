"""`python -m sluicegate_danube.reference --store`, as a process of its own."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import grpc
import pytest
from danube import DanubeClient
from tests.danube.support.clients import danube_client
from tests.danube.support.stored import A, B, orphan
from tests.waiting import LONG_S, until_so

from sluicegate.store import sqlite_file
from sluicegate.store.metadata import Delete, MetadataStore, Put, Unchanged, open_metadata
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.__main__ import main
from sluicegate_danube.reference.stored import StoredBroker, create_topic


@contextmanager
def program(url: str, broker_id: int, ttl_s: int) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A broker and its URL."""
    options = ["--store", url, "--broker-id", str(broker_id), "--ttl", str(ttl_s), "--port", "0"]
    command = [sys.executable, "-m", "sluicegate_danube.reference", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.kill()


def paused(process: "subprocess.Popen[str]", file: Path) -> bool:
    """Pause a broker; in the midst of a write it would lock out all others, so it goes on then."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as other:
        try:
            other.executescript("BEGIN IMMEDIATE; ROLLBACK")
        except sqlite3.OperationalError:
            process.send_signal(signal.SIGCONT)
            return False
    return True


async def give(store: MetadataStore, topic: str, broker_id: int) -> None:
    """What a load manager does."""
    waits = await store.get(keys.unassigned_key(topic))
    assert waits is not None
    changes: list[Put | Delete] = [Delete(waits.key), Put(keys.assignment_key(broker_id, topic), keys.EMPTY)]
    assert await store.transact([Unchanged(waits.key, waits.modified)], changes)


async def test_a_process_paused_beyond_its_lease_owns_nothing(
    tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP, its topic moves, SIGCONT: it registers again, and says whose the topic is."""
    monkeypatch.setattr(sqlite_file, "_BUSY_S", LONG_S)  # either may stall while it has the lock
    url = f"sqlite:///{tmp_path / 'metadata.db'}"
    opened = open_metadata(url)
    assert opened is not None
    store = opened[0]
    try:
        async with StoredBroker(store, B, ttl_s=600) as other:
            with program(url, A, 1) as (process, own_url):
                await create_topic(store, topic)
                await give(store, topic, A)
                await until_so(lambda: other.view.owner(topic) == A)
                assert other.view.url(A) == own_url
                await until_so(lambda: paused(process, tmp_path / "metadata.db"))
                await until_so(lambda: other.view.owner(topic) is None)
                await orphan(store, topic, A)
                await give(store, topic, B)
                await until_so(lambda: topic in other.cluster.topics)
                process.send_signal(signal.SIGCONT)
                await until_so(lambda: A in other.view._live.registrations)
                assert await store.get(keys.assignment_key(A, topic)) is None
                async with danube_client(own_url) as client:
                    assert await _told(client, topic) == other.url
    finally:
        await store.close()


async def _told(client: DanubeClient, topic: str) -> str:
    """The owner by a broker that may still be on its way to its cluster."""
    while True:
        try:
            found = await client.lookup_service.lookup_topic(client.uri, topic)
        except grpc.aio.AioRpcError as error:
            # It may come several times; a call is cancelled if the broker's lease ends once more meanwhile.
            assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)  # noqa: PT017
        else:
            return str(found.broker_url)


@pytest.mark.parametrize(
    ("url", "text"),
    [("redis://a:1", "cannot open"), ("etcd://127.0.0.1:1/prefix", "Danube's keys begin with no prefix")],
)
def test_an_invalid_store_is_reported(url: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--store", url, "--port", "0"]) == 2
    assert text in capsys.readouterr().err
