"""What holds for all tests: how they spread over processes, and what a slow machine leaves out."""

import gc
import logging
import os
import tempfile
from collections.abc import Generator, Iterator
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SLOW_MACHINE = "SLUICEGATE_SLOW_MACHINE"
"""Set to 1 by `.ci/run` where it measures a slow machine: tests marked `longer` are left out there."""
_IS_SLOW = os.environ.get(SLOW_MACHINE) == "1"
ARTEFACTS = "SLUICEGATE_ARTEFACTS"
"""Names a directory that keeps what a run leaves behind; CI sets it."""
_SHARED_BROKERS = ("tests/kafka/real/", "tests/pulsar/real/", "tests/danube/failover/real/")
"""Tests below each of these share a broker, which ends when a process is done with its folder."""
_OWN_BROKERS = (
    "kafka/real/test_cluster",
    "kafka/real/test_matrix",
    "kafka/real/test_security",
    "kafka/real/test_storage",
    "pulsar/real/test_cluster",
    "pulsar/real/test_matrix",
    "pulsar/real/test_tokens",
    "pulsar/real/test_transactions",
)
"""Files that do without the folder's broker, or are worth one of their own: they run in any process."""
_SECOND_HALF = "test_p"
"""Files of a folder from this name on run in another process than those before: mostly they wait."""
_SPARK = (
    "tests/reports/commands/test_demo",
    "tests/reports/jobs/",
    "tests/reports/planted/",
    "tests/reports/replaying/",
    "tests/reports/runner/test_compared",
    "tests/reports/spark/test_nothing",
    "tests/reports/spark/test_reading",
    "tests/reports/spark/test_session",
    "tests/reports/transforms/",
)
"""Tests below these share one Spark session: it costs more to start than most of them take."""

# A busy machine takes what time it likes for one example; pytest's own limit ends what never ends.
settings.register_profile("whole", deadline=None)
settings.register_profile("slow machine", deadline=None, max_examples=25)
settings.load_profile("slow machine" if _IS_SLOW else "whole")


def pytest_configure() -> None:
    """Give each process ports of its own, which the programs that it starts take over.

    The garbage collector is off while thousands of tests are collected: none is garbage.
    """
    gc.disable()
    worker, count = os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    if worker is not None:
        from sluicegate.demo.ports import RANGE, port_range  # not installed where installing is tested

        first, last = port_range()
        share = (last - first) // count
        first += share * int(worker.removeprefix("gw"))
        os.environ[RANGE] = f"{first}-{first + share}"


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let one process collect before the others: it compiles the tests, and the others load that."""
    run = getattr(session.config, "workerinput", {}).get("testrunuid")
    if run is None:
        return (yield)
    with (Path(tempfile.gettempdir()) / f"sluicegate-tests-{run}").open("w") as turn:
        try:
            flock(turn, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            flock(turn, LOCK_SH)
            return (yield)
        try:
            return (yield)
        finally:
            Path(turn.name).unlink()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, and not among the collected tests, each of which is still needed."""
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """Tests on brokers wait at times, so five processes for two cores; a slow one waits less: three."""
    cores = max(2, os.cpu_count() or 2)
    return min((3 if _IS_SLOW else 5) * cores // 2, 8)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> "Spreading":
    """Spread files, not tests: what a file's tests share is made once."""
    return Spreading(config, log)


class Spreading(LoadFileScheduling):  # type: ignore[misc] # xdist tells no types
    """Assigns whole files to processes.

    Files that share a broker form two groups, those that share a Spark session one; a group runs in one
    process. On a slow machine, files that share a broker form one group: a second broker costs more than it
    gains.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if not _IS_SLOW and any(own in file for own in _OWN_BROKERS):
            return file
        if any(folder in file for folder in _SPARK):
            return "spark"
        folder = next((folder for folder in _SHARED_BROKERS if folder in file), None)
        if folder is None:
            return file
        if _IS_SLOW:
            return folder
        return f"{folder} {'second' if Path(file).name >= _SECOND_HALF else 'first'} half"


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Put handlers and levels back: `sluicegate run`, which tests call too, replaces those of its process."""
    root, own = logging.getLogger(), logging.getLogger("sluicegate")
    handlers, levels = list(root.handlers), (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run what takes long first, so that no process is left with it at the end; skip what is only longer."""
    items.sort(key=_rank)
    if not _IS_SLOW:
        return
    longer = [item for item in items if is_longer(item)]
    for item in longer:
        item.add_marker(pytest.mark.skip(reason=f"{SLOW_MACHINE}=1: only longer, not different"))
    # Each process collects all items, so the first one tells of all.
    if ARTEFACTS in os.environ and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        told = Path(os.environ[ARTEFACTS])
        told.mkdir(parents=True, exist_ok=True)
        (told / "left-out.txt").write_text("".join(f"{item.nodeid}\n" for item in longer))


def is_longer(item: pytest.Item) -> bool:
    """Whether a slow machine leaves a test out: one marker that says so is enough."""
    case = getattr(item, "callspec", None)
    values = () if case is None else case.params.values()
    return any(
        "but" not in mark.kwargs or mark.kwargs["but"] not in values for mark in item.iter_markers("longer")
    )


def _rank(item: pytest.Item) -> int:
    """Long rows of tests first: on Spark, then on shared brokers; then what else takes long."""
    if "spark" in getattr(item, "fixturenames", ()):
        return 0
    place = item.path.as_posix()
    if _IS_SLOW or not any(own in place for own in _OWN_BROKERS):
        for rank, folder in enumerate(_SHARED_BROKERS, 1):
            if folder in place:
                return rank
    waits = item.get_closest_marker("broker") or item.get_closest_marker("slow")
    return len(_SHARED_BROKERS) + (1 if waits else 2)
