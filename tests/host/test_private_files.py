"""What a gateway keeps is for its owner alone, whatever the umask is."""

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.decisions.conftest import FakeGate, publish, rejection
from tests.waiting import until

from sluicegate.decisions import DecisionLog, RefusalJournal
from sluicegate.decisions.spool import parquet_files, spools
from sluicegate.host.private_files import make_database, make_folder, opener
from sluicegate.model import Level
from sluicegate.store import SqliteStore


@pytest.fixture(params=[0o000, 0o022, 0o027, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Modes of all that is in a folder, by their paths in it."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode)) for path in found}


@pytest.mark.usefixtures("umask")
def test_state_is_private(tmp_path: Path) -> None:
    state = tmp_path / "var" / "sluicegate"
    with closing(SqliteStore(state / "policies.db")) as store:
        store.set(Level.TOPIC, "orders", "max_publish_rate", 5, actor="me")
        log = DecisionLog(
            state / "decisions", "kafka", "main", journal=RefusalJournal(state, "kafka", "main")
        )
        log.decided(FakeGate(), publish(), rejection(), 0)
        until(lambda: spools(state / "decisions") and list(state.glob("refusals*-wal")))
        _all_private(tmp_path, at_least={"var/sluicegate/policies.db", "var/sluicegate/policies.db-wal"})
        log.close()
    assert parquet_files(state / "decisions"), "compaction has begun no file"
    _all_private(tmp_path, at_least={"var", "var/sluicegate", "var/sluicegate/decisions"})


def _all_private(folder: Path, at_least: set[str]) -> None:
    found = modes(folder)
    assert found.keys() >= at_least
    wrong = {
        path: mode
        for path, mode in found.items()
        if mode != ("0o700" if (folder / path).is_dir() else "0o600")
    }
    assert wrong == {}


@pytest.mark.usefixtures("umask")
def test_a_file_is_private_from_its_first_byte(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb", opener=opener) as file:
        assert oct(stat.S_IMODE(os.fstat(file.fileno()).st_mode)) == "0o600"


def test_a_folder_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o750)
    make_folder(tmp_path / "a" / "b" / "c")
    assert modes(tmp_path) == {"a": "0o750", "a/b": "0o700", "a/b/c": "0o700"}


def test_no_folder_is_made_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "a")


def test_a_database_of_an_earlier_release_is_closed_to_others(tmp_path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"policies.db{suffix}").touch(0o644)
    make_database(tmp_path / "policies.db")
    assert set(modes(tmp_path).values()) == {"0o600"}
