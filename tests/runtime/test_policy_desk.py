"""Policies for operators: plans, changes, documents, history and undo, with a real file and store."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sluicegate.broker import PolicyRefusedError
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.load import load
from sluicegate.runtime.changing import Wanted
from sluicegate.runtime.edits import change_from
from sluicegate.runtime.plugins import CHOICE, load_plugins
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.runtime.policy_desk import Live, PolicyDesk
from sluicegate.store import Author
from sluicegate.store.policy_store import StoreConflictError

ANN = Author("ann", "the fair begins")
FILE = """\
brokers:
  - {name: prod, system: kafka, bootstrap: ["127.0.0.1:1"], listen: {port: 19092}}
  - name: stage
    system: kafka
    bootstrap: ["127.0.0.1:2"]
    listen: {port: 29092}
    policies:
      topics: [{name: orders.eu, max_publish_rate: 10/s}]
policies:
  broker: {max_message_size: 1MiB, locked: [max_message_size]}
  namespaces: [{name: orders, max_publish_rate: 1000/s}]
"""
LIVE: Live = {
    "prod": {"orders.eu": {"use": {"max_publish_rate": {"used_1s": 411.7}}}, "clicks": {}},
    "stage": {"orders.eu": {}},
}

Open = Callable[[], PolicyDesk]


@pytest.fixture
def open_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    monkeypatch.setenv(CHOICE, "kafka")
    monkeypatch.chdir(tmp_path)
    Path("gateway.yaml").write_text(FILE)
    opened: list[PolicyWatch] = []

    def make() -> PolicyDesk:
        plugins = load_plugins(())
        loaded = load("gateway.yaml", plugins.policy_models, plugins.broker_models, {})
        watch = PolicyWatch("gateway.yaml", loaded, plugins, {})
        opened.append(watch)
        watch.check()
        return PolicyDesk(watch, lambda: LIVE)

    yield make
    for watch in opened:
        watch.close()


def wanted_from(edits: list[dict[str, Any]]) -> list[Wanted]:
    return change_from(edits).wanted()


def rate(value: object, name: str = "orders.eu", broker: str = "") -> list[dict[str, Any]]:
    edit = {"level": "topic", "name": name, "broker": broker, "field": "max_publish_rate", "value": value}
    return [edit]


def test_a_plan_names_the_topics_in_use_and_changes_nothing(open_desk: Open) -> None:
    desk = open_desk()
    before = desk.settings()
    plan, _ = desk.plan(wanted_from(rate("500/s")))
    assert [(each["old_text"], each["new_text"]) for each in plan["changes"]] == [("not set", "500/s")]
    shown = [(row["broker"], row["topic"], row["before"], row["after"]) for row in plan["topics"]]
    assert shown == [("prod", "orders.eu", "1k/s", "500/s"), ("stage", "orders.eu", "10/s", "500/s")]
    assert (plan["topics_changed"], plan["topics_known"]) == (2, 3)
    assert [row["use_text"] for row in plan["topics"]] == ["412/s", ""]
    assert plan["version"] == before["version"] != plan["version_after"]
    assert desk.settings() == before


def test_a_plan_for_one_broker_touches_no_other(open_desk: Open) -> None:
    plan, _ = open_desk().plan(wanted_from(rate("500/s", broker="prod")))
    assert [row["broker"] for row in plan["topics"]] == ["prod"]


def test_what_the_file_says_is_the_value_before(open_desk: Open) -> None:
    plan, _ = open_desk().plan(wanted_from(rate("5/s", broker="stage")))
    [change] = plan["changes"]
    assert (change["old"], change["old_text"]) == (None, "10/s of the file")


def test_a_change_has_the_version_that_its_plan_says_and_undo_brings_back_the_former(open_desk: Open) -> None:
    desk = open_desk()
    before = desk.settings()["version"]
    plan, _ = desk.plan(wanted_from(rate("500/s")))
    done = desk.change(wanted_from(rate("500/s")), ANN)
    assert done["version"] == plan["version_after"]
    [revision] = desk.history(9)
    assert {key: revision[key] for key in ("number", "actor", "reason", "source", "policies")} == {
        "number": done["revision"],
        "actor": "ann",
        "reason": "the fair begins",
        "source": "store",
        "policies": done["version"],
    }
    undone = desk.change(desk.undoing(done["revision"]), Author("bob", "back"))
    assert undone["version"] == before
    assert [each["actor"] for each in desk.history(9)] == ["bob", "ann"]


def test_the_version_is_the_same_after_a_restart_and_a_moved_line(open_desk: Open) -> None:
    desk = open_desk()
    desk.change(wanted_from(rate("500/s")), ANN)
    version = desk.settings()["version"]
    Path("gateway.yaml").write_text(f"# a comment\n{FILE}")
    assert open_desk().settings()["version"] == version


def test_what_was_changed_again_cannot_be_undone(open_desk: Open) -> None:
    desk = open_desk()
    first = desk.change(wanted_from(rate("500/s")), ANN)["revision"]
    desk.change(wanted_from(rate("600/s")), ANN)
    with pytest.raises(PolicyRefusedError, match=r"max_publish_rate of topic orders\.eu was changed again"):
        desk.undoing(first)
    with pytest.raises(PolicyRefusedError, match="no revision 77"):
        desk.undoing(77)


def test_of_two_writers_who_saw_the_same_version_one_is_refused(open_desk: Open) -> None:
    one, two = open_desk(), open_desk()
    seen = one.settings()["version"]
    one.change(wanted_from(rate("500/s")), ANN, seen)
    with pytest.raises(StoreConflictError, match="somebody else has changed them"):
        two.change(wanted_from(rate("600/s")), Author("bob"), seen)
    assert [each["actor"] for each in one.history(9)] == ["ann"]


def test_a_change_of_the_file_is_in_the_history_after_a_restart_too(open_desk: Open) -> None:
    open_desk()
    Path("gateway.yaml").write_text(FILE.replace("1000/s", "800/s"))
    desk = open_desk()
    [revision] = desk.history(9)
    assert (revision["source"], revision["policies"]) == ("file", desk.settings()["version"])
    assert revision["actor"].startswith("gateway.yaml on ")
    [change] = revision["changes"]
    assert (change["name"], change["old_text"], change["new_text"]) == ("orders", "1k/s", "800/s")
    with pytest.raises(PolicyRefusedError, match="changed the configuration file: change it back there"):
        desk.undoing(revision["number"])


def test_an_exported_document_restores_the_store(open_desk: Open) -> None:
    desk = open_desk()
    edits = [
        *rate("500/s"),
        *rate("7/s", broker="stage"),
        {"level": "broker", "field": "ceiling.max_publish_rate", "value": "2k/s"},
        {"level": "namespace", "name": "orders", "field": "on_limit.max_publish_rate", "value": "reject"},
        {"level": "namespace", "name": "orders", "field": "max_producers_per_topic", "value": 0},
    ]
    desk.change(wanted_from(edits), ANN)
    version, text = desk.settings()["version"], desk.export()
    desk.change(wanted_from(rate(None) + rate("9/s", name="clicks")), ANN)
    desk.change(desk.document(text, "document", prune=True), ANN)
    assert (desk.settings()["version"], desk.export()) == (version, text)
    assert desk.document(text, "document", prune=True) == []


def test_without_prune_a_document_removes_nothing(open_desk: Open) -> None:
    desk = open_desk()
    desk.change(wanted_from(rate("500/s")), ANN)
    document = "policies: {topics: [{name: clicks, max_publish_rate: 9/s}]}"
    assert [each.value for each in desk.document(document, "document", prune=False)] == [9]
    assert [each.value for each in desk.document(document, "document", prune=True)] == [9, None]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("policies: {topics: [{name: a, max_publish_rate: 3x}]}", "unknown unit 'x' in '3x'"),
        ("policies: {topics: [{name: a, max_publish_rte: 3}]}", "unknown key 'max_publish_rte'"),
        (
            "policies: {topics: [{name: a, max_publish_rate: 3, locked: [max_publish_rate]}]}",
            "the store cannot lock policies",
        ),
        ("admin: {port: 1}", "unknown key 'admin'"),
        ("- a", "expected a mapping"),
    ],
)
def test_a_document_with_errors_names_the_place(open_desk: Open, document: str, message: str) -> None:
    with pytest.raises(ConfigErrors) as refused:
        open_desk().document(document, "policies.yaml", prune=False)
    [finding] = refused.value.errors
    assert finding.message.startswith(message)
    assert (finding.file, finding.line) == ("policies.yaml", 1)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"field": "max_publish_rte"}, "unknown policy 'max_publish_rte': did you mean 'max_publish_rate'?"),
        ({"value": "5x"}, "max_publish_rate: unknown unit 'x' in '5x'"),
        ({"name": "a b"}, "no broker of the file can have a topic 'a b'"),
        ({"name": "a\tb"}, r"is no name of a topic: write 1 to 4096 printable characters"),
        ({"name": "\x1b[31m"}, r"'\\x1b\[31m' is no name of a topic"),
        ({"name": "a/b"}, "no broker of the file can have a topic 'a/b'"),
        ({"name": "a" * 5_000}, r"edits\.1\.name: String should have at most 4096 characters"),
        ({"broker": "moon"}, "unknown broker 'moon': the file has prod, stage"),
        ({"level": "planet"}, r"edits\.1\.level: String should match pattern"),
        ({"level": "broker"}, "policies of a whole broker have no name"),
        ({"field": "max_message_size", "value": 5}, "is locked by the file in gateway.yaml:10"),
        ({"field": "connection_rate_limit", "value": 5}, "applies to a whole broker"),
        ({"name": 7}, r"edits\.1\.name: Input should be a valid string"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_as_a_whole(
    open_desk: Open, edit: dict[str, Any], message: str
) -> None:
    desk = open_desk()
    [base] = rate("500/s")
    with pytest.raises(PolicyRefusedError, match=message):
        desk.change(wanted_from([*rate("9/s", name="clicks"), {**base, **edit}]), ANN)
    assert desk.history(9) == []


def test_the_history_survives_a_store_that_it_cannot_be_written_to(
    open_desk: Open, caplog: pytest.LogCaptureFixture
) -> None:
    desk = open_desk()
    Path("gateway.yaml").write_text(FILE.replace("1000/s", "800/s"))
    Path("var/sluicegate/file-policies.json").write_text("{")
    with closing(desk._watch):
        assert open_desk().history(9) == []  # what was kept cannot be read: nothing is known to have changed


def test_a_change_of_the_file_right_after_the_start_is_in_the_history(open_desk: Open) -> None:
    plugins = load_plugins(())
    loaded = load("gateway.yaml", plugins.policy_models, plugins.broker_models, {})
    with closing(PolicyWatch("gateway.yaml", loaded, plugins, {})) as watch:
        Path("gateway.yaml").write_text(FILE.replace("1000/s", "800/s"))
        watch.check()
        [revision] = PolicyDesk(watch).history(9)
        assert (revision["source"], revision["policies"]) == ("file", PolicyDesk(watch).settings()["version"])


def test_a_scope_of_the_file_is_in_the_history(open_desk: Open) -> None:
    def text(rate: str) -> str:
        return f"{FILE}  scopes:\n    - {{for: {{principals: [a]}}, max_publish_rate: {rate}}}\n"

    Path("gateway.yaml").write_text(text("5/s"))
    open_desk()
    Path("gateway.yaml").write_text(text("6/s"))
    [revision] = open_desk().history(9)

    [change] = revision["changes"]
    assert (change["scope"], change["place"]) == ("principals a", "broker for principals a")
    assert (change["old_text"], change["new_text"]) == ("5/s", "6/s")
