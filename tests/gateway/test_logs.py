import io
import json
import logging
from collections.abc import Iterator

import pytest

from sluicegate.gateway import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("sluicegate")
    handlers, levels = list(root.handlers), (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])


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


def test_text_lines_are_for_people() -> None:
    stream = io.StringIO()
    logs.set_up("warning", "text", stream)
    logging.getLogger("sluicegate").info("quiet")
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("sluicegate").warning("loud", extra={"topic": "orders"})
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("WARNING loud topic='orders'")


def test_throttle_lets_one_a_second_through_and_counts_the_others() -> None:
    throttle = logs.Throttle()
    passed = [throttle.passes("key", now_ns) for now_ns in range(0, 2_000_000_000, 100_000_000)]
    assert [left_out for left_out in passed if left_out is not None] == [0, 9]
    assert throttle.passes("another", 0) == 0


def test_text_of_clients_cannot_break_lines() -> None:
    assert logs.printable("a\nb\x1b[0m ü") == "a\\nb\\x1b[0m ü"
    stream = io.StringIO()
    logs.set_up("info", "text", stream)
    logging.getLogger("sluicegate").warning("cannot list %s", "orders\n2026-01-01 INFO all is well")
    assert len(stream.getvalue().splitlines()) == 1
