"""Templates and hooks for those who work on the project agree with what is there."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.house.test_documents import ROOT, broken_links

_GITHUB = ROOT / ".github"
_FORMS = sorted(path for path in (_GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
_WORKFLOWS = sorted((_GITHUB / "workflows").glob("*.yml"))
_INPUTS = {"dropdown", "input", "textarea"}
_HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]


@pytest.mark.parametrize("path", _FORMS, ids=lambda path: path.name)
def test_an_issue_form_has_what_a_code_host_asks_for(path: Path) -> None:
    form: dict[str, Any] = yaml.safe_load(path.read_text())
    assert form.keys() == {"name", "description", "labels", "body"}
    asked = [each for each in form["body"] if each["type"] in _INPUTS]
    assert len({each["id"] for each in asked}) == len(asked)
    assert all(each["attributes"]["label"] for each in asked)
    assert any(each.get("validations", {}).get("required") for each in asked)
    assert {each["type"] for each in form["body"]} <= _INPUTS | {"markdown"}


def test_links_of_the_template_for_changes_lead_somewhere() -> None:
    assert broken_links(_GITHUB / "PULL_REQUEST_TEMPLATE.md") == []


def test_commands_that_templates_name_exist() -> None:
    text = "".join(path.read_text() for path in [*_FORMS, _GITHUB / "PULL_REQUEST_TEMPLATE.md"])
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in re.findall(r"`make ([a-z]+)`", text))


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_their_commits(path: Path) -> None:
    """A tag can be moved. The version stands behind the commit, where dependabot reads and changes it."""
    used = re.findall(r"uses: (.*)", path.read_text())
    pinned = re.compile(r"[a-z-]+/[a-z-]+(/[a-z-]+)?@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+")
    assert [each for each in used if not pinned.fullmatch(each)] == []


def test_a_version_of_an_action_is_one_commit() -> None:
    used = {
        each
        for path in _WORKFLOWS
        for each in re.findall(r"uses: ([a-z-]+/[a-z-]+)\S*(@.*)", path.read_text())
    }
    assert len(used) == len({name for name, _ in used})


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_unless_a_job_says_otherwise(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    may_write = {name for name, job in workflow["jobs"].items() if "write" in str(job.get("permissions"))}
    assert may_write <= {"analyse", "publish", "announce"}


def test_a_release_is_attested_and_uploaded_without_a_password() -> None:
    jobs = yaml.safe_load((_GITHUB / "workflows" / "release.yml").read_text())["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    *_, upload = jobs["publish"]["steps"]
    assert upload["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert upload["with"] == {"attestations": True}
    assert all("run" not in step for step in jobs["publish"]["steps"])


def test_environments_that_other_workflows_run_exist() -> None:
    tox = (ROOT / "tox.ini").read_text()
    for path in _WORKFLOWS:
        for name in re.findall(r"run: tox run -e (\w+)", path.read_text()):
            assert f"\n[testenv:{name}]\n" in tox


def test_environments_of_the_workflow_exist() -> None:
    jobs = yaml.safe_load((_GITHUB / "workflows" / "versions.yml").read_text())["jobs"]
    tox = (ROOT / "tox.ini").read_text()
    for case in jobs["tox"]["strategy"]["matrix"]["include"]:
        name = case["command"].removeprefix("tox run -e ")
        assert f"\n[testenv:{name}]\n" in tox
        assert name.removeprefix("py3") in {case["python"].removeprefix("3."), name}


def test_hooks_of_git_take_the_versions_of_the_checks() -> None:
    """None comes from another repository: a package index is all that they need."""
    [local] = _HOOKS
    assert local["repo"] == "local"
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    hooks = {hook["id"]: hook for hook in local["hooks"]}
    assert hooks["ruff-check"]["additional_dependencies"] == groups["lint"]
    assert hooks["ruff-format"]["additional_dependencies"] == groups["lint"]
    assert f"'{hooks['types']['additional_dependencies'][0]}'" in (ROOT / "Makefile").read_text()
