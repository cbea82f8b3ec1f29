"""A gateway is found by its note, which only its own user can write, and only while it runs."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from sluicegate.admin.own_note import OwnNote
from sluicegate.admin.running_note import (
    DEFAULT_STATE_DIR,
    NAME,
    OVERRIDES,
    RunningNote,
    digest_of,
    environment_mark,
    file_mark,
    find_note,
)
from sluicegate.config.environment import PREFIX
from sluicegate.config.load import parse_file
from sluicegate.config.models import GatewayConfig

ADDRESS = ("127.0.0.1", 9095)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    path = tmp_path / "gateway.yaml"
    path.write_text(f"state_dir: {tmp_path}/state\n")
    return path


def own(file: Path) -> OwnNote:
    return OwnNote(str(file), f"{file.parent}/state", {})


def found(file: Path) -> RunningNote | None:
    found = find_note(file.read_bytes(), str(file), {})
    return found and found[1]


def test_what_a_gateway_leaves_is_found_until_it_removes_it(file: Path) -> None:
    note = own(file)
    assert found(file) is None
    note.leave(ADDRESS)
    there = found(file)
    assert there is not None
    assert (there.pid, there.host, there.port, there.key) == (os.getpid(), *ADDRESS, note.key)
    assert (file.parent / "state" / NAME).stat().st_mode & 0o777 == 0o600
    note.remove()
    assert found(file) is None


def test_a_note_about_another_file_is_not_taken(file: Path) -> None:
    own(file).leave(ADDRESS)
    other = file.with_name("other.yaml")
    other.write_text(file.read_text())
    assert found(other) is None


@pytest.mark.parametrize(
    ("host", "told"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("127.0.0.2", "127.0.0.2"), ("::1", "::1")]
)
def test_the_address_in_a_note_is_a_loopback_address(file: Path, host: str, told: str) -> None:
    own(file).leave((host, 1))
    note = found(file)
    assert note is not None
    assert note.host == told


def test_without_a_loopback_address_no_note_is_left_and_an_older_one_goes(file: Path) -> None:
    own(file).leave(ADDRESS)
    own(file).leave(("10.0.0.7", 9095))
    assert not (file.parent / "state" / NAME).exists()


def change(file: Path, **values: object) -> None:
    path = file.parent / "state" / NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def make_public(path: Path) -> None:
    path.chmod(0o644)


def make_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def make_nonsense(path: Path) -> None:
    path.write_text("[1, 2")


def make_list(path: Path) -> None:
    path.write_text("[1, 2]")


@pytest.mark.parametrize("spoil", [make_public, make_link, make_pipe, make_nonsense, make_list])
def test_a_note_that_another_user_could_have_made_or_that_is_none_is_not_taken(
    file: Path, spoil: Callable[[Path], None]
) -> None:
    own(file).leave(ADDRESS)
    spoil(file.parent / "state" / NAME)
    assert found(file) is None


def test_a_note_of_another_user_is_taken_by_root_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own(file).leave(ADDRESS)
    user = (file.parent / "state" / NAME).stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert found(file) is None
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert found(file) is not None


@pytest.mark.parametrize("values", [{"started": 1}, {"pid": 2**22 + 1}, {"format": 2}, {"new": 1}])
def test_a_stale_note_or_one_of_another_version_is_not_taken(file: Path, values: dict[str, int]) -> None:
    own(file).leave(ADDRESS)
    change(file, **values)
    assert found(file) is None


def test_the_note_of_the_next_gateway_stays(file: Path) -> None:
    note = own(file)
    note.leave(ADDRESS)
    change(file, pid=1)
    note.remove()
    assert (file.parent / "state" / NAME).exists()


def test_a_note_that_cannot_be_written_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    OwnNote("gateway.yaml", str(tmp_path / "missing"), {}).leave(ADDRESS)
    assert "cannot note in state_dir where this gateway is" in caplog.text


PLAIN = (
    "",
    "state_dir: state",
    "state_dir: 'a b'",
    'state_dir: "a b" # c',
    "x: 1\r\nstate_dir: a/b\r\n",
    '{"state_dir": "a"}',
)
ODD = (
    *("state_dir: a#b", "state_dir: é", "\ufeffstate_dir: a", "state_dir: state # here"),
    *('state_dir: "a\\tb"', "state_dir: 'a''b'", "state_dir: >\n  a", "state_dir: &x a", "state_dir:\n  a"),
    *("'state_dir': a", '"state_dir" : a', "state_dir : a", "x:\n  state_dir: b", "x: |\n  state_dir: b"),
    *("state_dir: a\n  b", "{state_dir: a}", "{'x': 1}", "? state_dir\n: a", "state_dir: !!str a"),
)


@pytest.mark.parametrize("text", [*PLAIN, *ODD])
def test_the_state_dir_is_found_as_parsing_finds_it_or_not_at_all(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gateway.yaml").write_text(text)
    parsed = (yaml.safe_load(text.removeprefix("\ufeff")) or {}).get("state_dir", DEFAULT_STATE_DIR)
    Path(parsed).mkdir(parents=True)
    OwnNote("gateway.yaml", parsed, {}).leave(ADDRESS)
    found = find_note(text.encode(), "gateway.yaml", {})
    assert found is None or found[0] == parsed
    assert found is not None or text in ODD


def test_a_variable_overrides_the_state_dir(file: Path, tmp_path: Path) -> None:
    own(file).leave(ADDRESS)
    elsewhere = {"SLUICEGATE__STATE_DIR": f"'{tmp_path}/state'"}
    assert find_note(b"state_dir: other\n", str(file), elsewhere) is not None
    assert find_note(b"state_dir: other\n", str(file), {}) is None


def test_what_is_written_twice_to_import_little_is_the_same() -> None:
    assert OVERRIDES == PREFIX
    assert GatewayConfig.model_fields["state_dir"].default == DEFAULT_STATE_DIR


def test_digests_are_those_of_the_reader_of_files(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_bytes("\ufeffstate_dir: é\r\n".encode())
    assert digest_of(path.read_bytes()) == parse_file(path, {"SLUICEGATE__X": "1"}).file_digest
    assert file_mark("a", "00" * 16) != file_mark("a", "01" * 16)


def test_only_variables_that_override_the_file_count() -> None:
    assert environment_mark({"PATH": "/bin", "SLUICEGATE_LOAD_PLUGINS": ""}) == ""
    assert environment_mark({"SLUICEGATE__A": "1"}) == environment_mark({"X": "", "SLUICEGATE__A": "1"}) != ""
    assert environment_mark({"SLUICEGATE__A": "1"}) != environment_mark({"SLUICEGATE__A": "2"})
