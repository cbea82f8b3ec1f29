"""Every console snippet of the documents runs, and prints what the document shows.

Each document gets a directory of its own, in which bash runs its commands one after the other. Commands that
cannot run here are in `elsewhere.ELSEWHERE`, with what runs them; of these, names and options are checked.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.console import Command, all_commands, differs, unmarked
from tests.docs.elsewhere import ELSEWHERE, Elsewhere, elsewhere, problem
from tests.docs.world import Brokers, World, brokers, documented_file
from tests.house.test_documents import ROOT, documents

pytestmark = pytest.mark.slow

COMMANDS = all_commands()
PRESENT = {name: here for name, each in COMMANDS.items() if (here := [c for c in each if not elsewhere(c)])}
"""The commands that are run here."""
EVERY = [command for each in COMMANDS.values() for command in each]
RUNNING = {"docs/pulsar.md", "docs/maintenance.md"}
"""Documents whose commands are for a gateway that runs already."""


@pytest.fixture(scope="module")
def stand_ins() -> Iterator[Brokers]:
    with brokers() as found:
        yield found


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path, stand_ins: Brokers) -> Iterator[World]:
    document = request.node.callspec.params["document"]
    world = World(tmp_path, documented_file(document), stand_ins)
    try:
        if document in RUNNING:
            world.run("sluicegate run")
        yield world
    finally:
        world.end()


@pytest.mark.parametrize("document", PRESENT)
def test_commands_do_what_the_document_shows(document: str, world: World) -> None:
    present = PRESENT[document]
    for command, following in zip(present, [*present[1:], None], strict=True):
        if command.bare.startswith("curl") and shutil.which("curl") is None:
            pytest.skip("curl is not installed")
        code, printed = world.run(command.text)
        may_fail = following is not None and following.bare == "echo $?"
        assert code == 0 or may_fail, f"{command.place}: exit code {code}\n$ {command.bare}\n{printed}"
        missing = differs(command.shown, printed)
        assert not missing, f"{command.place}: not printed: {missing!r}\n$ {command.bare}\n{printed}"


@pytest.mark.parametrize(
    "command", [each for each in EVERY if elsewhere(each)], ids=lambda command: command.place
)
def test_commands_that_run_elsewhere_exist_with_their_options(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for named in ("runs/mixed", "runs/first", "var/sluicegate/decisions"):
        (tmp_path / named).mkdir(parents=True)
    (tmp_path / "candidate.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert problem(command.bare) == "", command.place


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sluicegate explain --last", "No such option"),
        ("sluicegate polices", "no command"),
        ("sluicegate report render", "Missing argument"),
        ("make dome", "no target dome"),
        ("tox run -e failure", "no environment failure"),
        ("pip install '.[kafka,rabbit]'", "unknown extras: rabbit"),
        ("pip install ./examples/none", "not this project"),
        ("python benchmarks/run.py --fast", "refused"),
        ("mvn verify", "nothing is known"),
    ],
)
def test_what_does_not_exist_is_found(command: str, said: str) -> None:
    assert said in problem(command)


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        ("ready: main on 127.0.0.1:19092", ""),
        ("ready: main on ...\n...\npolicy  value", ""),
        ("ready: main on 127.0.0.1:19092\ndecision k3x9qa-1f: refused", ""),
        ("ready: other on 127.0.0.1:19092", "ready: other on 127.0.0.1:19092"),
        ("policy  value", "policy  value"),
        ("...\nlimit", "limit"),
    ],
)
def test_output_is_compared_in_its_shape(shown: str, missing: str) -> None:
    printed = "ready: main on 127.0.0.1:5\ndecision odvigm-1: refused\n\npolicy     value\n"
    assert differs(tuple(shown.splitlines()), printed) == missing


@pytest.mark.parametrize("entry", ELSEWHERE, ids=lambda entry: entry.pattern)
def test_what_runs_elsewhere_is_shown_and_run_there(entry: Elsewhere) -> None:
    assert entry in [elsewhere(command) for command in EVERY], "no document shows it any more"
    assert entry.words in (ROOT / entry.run_by).read_text()


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_blocks_with_commands_are_marked_as_console(path: Path) -> None:
    assert unmarked(path) == []
