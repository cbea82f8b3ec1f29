"""Wrong use of replay, recommend and follow exits with 2 and a remedy before Spark starts."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sluicegate.cli import main
from sluicegate_reports.model.results import Table, from_json, of_log, to_json
from sluicegate_reports.render.markdown import markdown
from sluicegate_reports.spark import session


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "reports,kafka")
    monkeypatch.setattr(session, "spark_session", lambda *_: pytest.fail("Spark was started"))
    Path("log").mkdir()
    Path("wrong.yaml").write_text("brokers: []\n")
    Path("right.yaml").write_text(
        "brokers:\n- {name: m, system: kafka, bootstrap: ['127.0.0.1:9092'], listen: {port: 9192}}\n"
    )


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments], catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay", "log"], "Missing argument 'FILE'"),
        (["replay", "gone", "right.yaml"], "'gone' does not exist"),
        (["replay", "log", "gone.yaml"], "'gone.yaml' does not exist"),
        (["replay", "log", "wrong.yaml"], "`sluicegate check` reports the same"),
        (
            ["replay", "log", "right.yaml", "--out", "r.pdf"],
            "expected one of .html, .htm, .json",
        ),
        (["replay", "log", "right.yaml", "--out", "gone/r.md"], "there is no directory 'gone'; make it"),
        (["recommend", "log", "--head-room", "0.5"], "0.5 is not in the range"),
        (["recommend", "log", "--head-room", "nan"], "is not in the range"),
        (["follow", "log"], "Missing option '--state'"),
        (["follow", "log", "--state", "right.yaml"], "is a file"),
        (["follow", "log", "--state", "s", "--files-per-batch", "0"], "0 is not in the range"),
    ],
)
def test_wrong_use_ends_with_2(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_without_spark_the_remedy_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sluicegate_reports.jobs.recommend", None)
    result = run("recommend", "log")
    assert result.exit_code == 2
    assert "pip install 'sluicegate[reports]'" in result.stderr


def test_without_java_the_remedy_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("JAVA_HOME", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    result = run("replay", "log", "right.yaml")
    assert result.exit_code == 2
    assert "Spark needs Java 17" in result.stderr


def test_names_from_a_log_are_plain_text_in_markdown_and_json() -> None:
    table = Table(("topic", "refused"), (("a|b\n# c", 1), (None, 2)), "t", "Rows")
    results = of_log("What", "It.", {"log": "x"}, (table,), ("Note *this*.",))
    assert "| a\\|b\\\\n\\# c | 1 |\n|  | 2 |" in markdown(results)
    assert "- Note \\*this\\*." in markdown(results)
    assert '"a|b\\n# c"' in to_json(results).decode()
    assert from_json(to_json(results)) == results
