"""The dashboards are what their generator makes, and what Grafana can read."""

import importlib.util
import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.deploy.queries import DASHBOARDS, DEPLOY, dashboards

SCHEMA = json.loads((Path(__file__).parent / "dashboard.schema.json").read_text())
OPERATIONS = (DEPLOY.parent / "docs" / "operations.md").read_text()


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("dashboards", DEPLOY / "grafana" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["dashboards"] = module  # data classes look themselves up there
    spec.loader.exec_module(module)
    return module


def test_the_files_are_what_the_generator_makes() -> None:
    made = generator()
    assert [path.stem for path in DASHBOARDS] == sorted(made.BOARDS)
    for path in DASHBOARDS:
        assert path.read_text() == made.rendered(path.stem), "run python deploy/grafana/generate.py"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_as_grafana_wants_it(path: Path) -> None:
    jsonschema.validate(dashboards()[path.name], SCHEMA)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_room_and_names_of_their_own(path: Path) -> None:
    panels = dashboards()[path.name]["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for before, after in pairwise(places):
        assert after["y"] >= before["y"] + before["h"] or after["x"] >= before["x"] + before["w"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_uses_the_variables_that_it_has(path: Path) -> None:
    board = dashboards()[path.name]
    names = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(board["panels"])))
    assert used == names


def test_the_document_names_each_dashboard() -> None:
    section = OPERATIONS[OPERATIONS.index("### Dashboards") : OPERATIONS.index("## Admin API")]
    named = set(re.findall(r"^\| ([a-z ]+) \|", section, re.MULTILINE)) - {"dashboard"}
    assert {f"Sluicegate: {name}" for name in named} == {board["title"] for board in dashboards().values()}
