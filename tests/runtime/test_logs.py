import ast
import io
import json
import logging
import re
from pathlib import Path
from typing import Literal

import pytest
from tests.output import HOSTILE

from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason, visible
from sluicegate.runtime import logs
from sluicegate.runtime.recording import Recording
from sluicegate.testing import NullSink, build_gate

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("core", "interceptors", "plugins", "reports")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()


@pytest.mark.seed("S1-116")
def test_json_lines_carry_fields_and_traceback() -> None:
    stream = io.StringIO()
    logs.set_up("info", "json", stream, broker="b1")
    log = logging.getLogger("sluicegate.somewhere")
    try:
        raise KeyError("x")
    except KeyError:
        log.exception("went %s", "wrong", extra={"topic": "orders", "limit": 5})
    log.debug("not shown")
    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry["level"] == "error"
    assert entry["message"] == "went wrong"
    assert (entry["broker"], entry["topic"], entry["limit"]) == ("b1", "orders", 5)
    assert "KeyError: 'x'" in entry["traceback"]
    assert entry["time"].endswith("+00:00")


@pytest.mark.seed("S1-116")
def test_a_refusal_in_json_has_its_severity_and_the_level_of_its_policy() -> None:
    stream = io.StringIO()
    logs.set_up("info", "json", stream, broker="main")
    reason = Reason("max_message_size", Outcome.INVALID, "Message size 9 exceeds 8", 9, 8, "topic")
    op = Operation(OperationKind.PUBLISH, "orders.eu", client="app@127.0.0.1:1", principal="User:anna")
    Recording(NullSink()).decided(build_gate({}, now_ns=0), op, Decision(Action.REJECT, (reason,)), 0)

    entry = json.loads(stream.getvalue())

    assert entry["level"] == "warning"
    assert entry["policy_level"] == "topic"


@pytest.mark.parametrize("name", sorted(logs.JSON_KEYS - {"message"}))
def test_extra_fields_cannot_replace_standard_json_fields(name: str) -> None:
    stream = io.StringIO()
    logs.set_up("info", "json", stream)

    logging.getLogger("sluicegate.plugin").warning("text", extra={name: "mine"})

    entry = json.loads(stream.getvalue())
    assert entry["time"].endswith("+00:00")
    assert (entry["level"], entry["logger"], entry["message"]) == ("warning", "sluicegate.plugin", "text")
    assert entry[f"field_{name}"] == "mine"


@pytest.mark.parametrize("style", ["json", "text"])
def test_extra_fields_cannot_replace_fields_of_the_process(
    style: Literal["json", "text"],
) -> None:
    stream = io.StringIO()
    logs.set_up("info", style, stream, broker="main")

    logging.getLogger("sluicegate").warning("text", extra={"broker": 3})

    line = stream.getvalue()
    if style == "json":
        entry = json.loads(line)
        assert (entry["broker"], entry["field_broker"]) == ("main", 3)
    else:
        assert line.endswith("text broker='main' field_broker=3\n")


def own_fields() -> set[str]:
    """The fields of all log lines of the product, as its source has them."""
    found: set[str] = set()
    for path in (file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            found |= {
                key.value
                for word in call.keywords
                if word.arg == "extra" and isinstance(word.value, ast.Dict)
                for key in word.value.keys
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
            if isinstance(call.func, ast.Attribute) and call.func.attr == "say":
                found |= {word.arg for word in call.keywords if word.arg}
    return found - {"exc_info"}


def test_every_field_is_documented_and_shadows_no_standard_field() -> None:
    section = OPERATIONS[OPERATIONS.index("| field of a JSON line") : OPERATIONS.index("## Plugins")]
    fields = own_fields()
    assert {"policy_level", "exit_code", "client", "limit"} <= fields
    assert fields & logs.JSON_KEYS == set()
    assert (fields | logs.JSON_KEYS) - set(re.findall(r"`(\w+)`", section)) == set()


def test_text_lines_are_readable() -> None:
    stream = io.StringIO()
    logs.set_up("warning", "text", stream)
    logging.getLogger("sluicegate").info("quiet")
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("sluicegate").warning("loud", extra={"topic": "orders"})
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("WARNING loud topic='orders'")


def test_text_from_clients_cannot_inject_lines() -> None:
    stream = io.StringIO()
    logs.set_up("info", "text", stream)
    logging.getLogger("sluicegate").warning("cannot list %s", "orders\n2026-01-01 INFO all is well")
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("style", ["json", "text"])
def test_a_log_does_not_control_the_terminal(style: Literal["json", "text"]) -> None:
    stream = io.StringIO()
    logs.set_up("info", style, stream)
    hostile = HOSTILE.replace("\ud800", "")  # names that reach the log have no halves of characters
    try:
        raise ValueError(hostile)
    except ValueError:
        logging.getLogger("sluicegate").exception("no %s", hostile, extra={"topic": hostile})
    text = stream.getvalue()
    assert visible(text, keep="\n") == text
    if style == "json":
        entry = json.loads(text)
        assert (entry["message"], entry["topic"]) == (f"no {hostile}", hostile)
    else:
        first, *traceback = text.splitlines()
        assert "\\x1b]0;owned" in first
        assert traceback[0] == "  Traceback (most recent call last):"
        assert all(line.startswith("  ") for line in traceback)


@pytest.mark.parametrize(("level", "shown"), [("info", 0), ("debug", 1)])
def test_library_lines_are_dropped_where_the_gateway_logs_the_same_event(level: str, shown: int) -> None:
    stream = io.StringIO()
    silenced = "a.client.library"
    logs.set_up(level, "text", stream, silenced=[silenced])
    logging.getLogger(f"{silenced}.connection").error("Unable connect to %s", "b:9092")
    logging.getLogger("sluicegate").warning("cannot reach broker")
    lines = stream.getvalue().splitlines()
    assert len(lines) == shown + 1
    assert lines[-1].endswith("cannot reach broker")
