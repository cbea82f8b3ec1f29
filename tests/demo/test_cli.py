"""What `sluicegate demo` refuses, and what it says then."""

import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluicegate.cli import main


def test_a_missing_client_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"aiokafka", "confluent_kafka", "danube"}
    monkeypatch.setattr("sluicegate.broker.extra.find_spec", lambda name: None if name in absent else name)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka,danube")
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 1
    assert (
        "danube is not shown: danube-client not installed; do: pip install 'sluicegate[danube]'"
        in done.output
    )
    assert "kafka is not shown: " in done.output
    assert "pip install 'sluicegate[kafka]'" in done.output
    assert "nothing to show" in done.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--all", "--seconds", "9"], "--seconds is for the demo without --all and --only"),
        (
            ["--only", "message-size", "--picture", "a.svg"],
            "--picture is for the demo without --all and --only",
        ),
        (["--no-report"], "--no-report is for --all"),
        (["--seconds", "1"], "1.0 is not in the range 5<=x<=600"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str], words: str) -> None:
    done = CliRunner().invoke(main, ["demo", *options])
    assert done.exit_code == 2
    assert words in done.output


def test_an_unknown_scene_and_a_full_directory_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["demo", "--only", "tea"])
    assert done.exit_code == 2
    assert "unknown scene 'tea'; known scenes: adaptive-throttling, " in done.output

    (tmp_path / "mine.txt").write_text("precious")
    done = CliRunner().invoke(main, ["demo", "--keep", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not empty: expected a new or empty directory" in done.output
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_a_directory_that_cannot_be_written_is_reported_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    for options in (["--keep", str(file / "below")], ["--keep", "/proc/sluicegate"], []):
        done = CliRunner().invoke(main, ["demo", *options])
        assert done.exit_code == 1
        assert "no directory to write to (" in done.output
        assert "give a writable directory with --keep DIR" in done.output
        assert "Traceback" not in done.output


def test_help_lists_every_option_and_the_exit_codes() -> None:
    text = " ".join(CliRunner().invoke(main, ["demo", "--help"]).output.split())
    for words in (
        "--all",
        "--seconds N",
        "--picture FILE.svg",
        "--keep DIR",
        "--plain",
        "--only SCENE",
        "exit code is 1",
        "130",
        "not saturated here",
    ):
        assert words in text
