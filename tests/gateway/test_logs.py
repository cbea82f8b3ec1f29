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


def test_a_library_says_the_same_once_a_minute_and_without_its_traceback() -> None:
    now_ns = 0
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.TextLines({}))
    handler.addFilter(logs.LibraryLines(lambda: now_ns))
    library = logging.Logger("some.library")
    library.addHandler(handler)
    for _ in range(120):
        try:
            raise ConnectionRefusedError(111, "refused")
        except OSError:
            library.exception("cannot connect\nfuture: %r", object())
        library.warning("metadata of %s is old", "t")
        now_ns += 1_000_000_000
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert "cannot connect" in lines[0]
    assert lines[0].endswith("ConnectionRefusedError: [Errno 111] refused")
    assert lines[1].endswith("metadata of t is old")
    assert lines[2].endswith("left_out=59")
    assert lines[3].endswith("left_out=59")


@pytest.mark.parametrize(("level", "shown"), [("info", 0), ("debug", 1)])
def test_what_the_gateway_tells_in_its_own_words_a_library_does_not_tell_again(
    level: str, shown: int
) -> None:
    stream = io.StringIO()
    told_anew = "a.client.library"
    logs.set_up(level, "text", stream, told_anew=[told_anew])
    logging.getLogger(f"{told_anew}.connection").error("Unable connect to %s", "b:9092")
    logging.getLogger("sluicegate").warning("cannot reach broker")
    lines = stream.getvalue().splitlines()
    assert len(lines) == shown + 1
    assert lines[-1].endswith("cannot reach broker")
