"""A line that repeats itself is limited, for every logger, and what is left out is counted exactly."""

import errno
import io
import json
import logging
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.runtime import logs
from sluicegate.runtime.repeated_lines import RepeatedLines

SECOND = 1_000_000_000


class Bench:
    """Loggers of several names over one handler, and a clock that is turned by hand."""

    def __init__(self, limit: int = 10, window_s: float = 60, stream: io.StringIO | None = None) -> None:
        self.now_ns = 0
        self.stream = stream or io.StringIO()
        lines = RepeatedLines(limit, int(window_s * SECOND), "sluicegate")
        self.handler = logs.LimitedHandler(self.stream, lines, lambda: self.now_ns)
        self.handler.setFormatter(logs.TextLines({}))

    def logger(self, name: str = "sluicegate.decisions") -> logging.Logger:
        made = logging.Logger(name)
        made.addHandler(self.handler)
        return made

    def turn(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)
        self.handler.tell_left_out()

    @property
    def written(self) -> list[str]:
        return [line.partition(" ")[2].strip() for line in self.stream.getvalue().splitlines()]


def test_a_flood_of_equal_lines_becomes_ten_lines_and_a_count() -> None:
    bench = Bench()
    log = bench.logger()
    for _ in range(703):
        log.warning("refusal journal cannot be written: %s", "disk is full")
        bench.now_ns += 25 * SECOND // 703
    assert len(bench.written) == 10
    bench.turn(60)
    assert bench.written[10:] == [f"{bench.written[0]} ... and 693 more like this in 85 s left_out=693"]
    assert bench.handler.left_out == 693


def test_numbers_do_not_make_lines_different() -> None:
    bench = Bench()
    log = bench.logger()
    for number in range(50):
        log.error("cannot read 10.0.0.%d:%d (object at %#x)", number, number, number * 77)
    assert len(bench.written) == 10


def test_lines_with_other_details_are_counted_apart() -> None:
    bench = Bench(limit=2)
    log = bench.logger()
    for detail in (
        "malformed frame",
        "api key 0 version 13 is not offered",
        "api key 1 version 18 is not offered",
    ):
        for _ in range(3):
            log.warning("closing connection", extra={"detail": detail})
    assert len(bench.written) == 4


def test_arguments_distinguish_lines_up_to_ten_variants() -> None:
    bench = Bench(limit=2)
    log = bench.logger()
    names = [chr(97 + number % 26) * (1 + number // 26) for number in range(500)]
    for name in names:
        log.warning("cannot list subscriptions of %s", name)
    assert len(bench.written) == 20
    bench.turn(60)
    assert bench.written[-1].endswith(f"of {names[-1]} ... and 480 more like this in 60 s left_out=480")


def test_preformatted_texts_are_limited_per_logger() -> None:
    bench = Bench(limit=1)
    log = bench.logger("sluicegate.plugin.mine")
    for number in range(500):
        log.info("".join(chr(97 + int(digit)) for digit in str(number)))
    assert len(bench.written) == 100


def test_topics_policies_and_severities_are_counted_apart() -> None:
    bench = Bench(limit=1)
    log = bench.logger("sluicegate.policy")
    for _ in range(3):
        for topic in ("a", "b"):
            log.info("rate limiting started", extra={"topic": topic, "client": object()})
        log.warning("rate limiting started", extra={"topic": "a"})
    assert [line.partition(" client")[0] for line in bench.written] == [
        "INFO    rate limiting started topic='a'",
        "INFO    rate limiting started topic='b'",
        "WARNING rate limiting started topic='a'",
    ]
    bench.turn(60)
    assert (
        "INFO    rate limiting started ... and 2 more like this in 60 s topic='b' left_out=2" in bench.written
    )


@pytest.mark.parametrize("name", ["aiokafka.conn", "grpc._channel", "pulsar", "asyncio"])
def test_a_library_repeats_a_line_once_a_minute_without_traceback(name: str) -> None:
    bench = Bench()
    library = bench.logger(name)
    for _ in range(120):
        try:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        except OSError:
            library.exception("cannot connect\nfuture: %r", object())
        library.warning("metadata of %s is old", "t")
        bench.turn(1)
    assert [line.partition(" ")[0] for line in bench.written] == ["ERROR", "WARNING"] * 4
    assert bench.written[0].startswith("ERROR   cannot connect")
    assert bench.written[0].endswith("ConnectionRefusedError: [Errno 111] refused")
    assert bench.written[1] == "WARNING metadata of t is old"
    assert bench.written[2].startswith("ERROR   cannot connect ... and 59 more like this in 60 s")
    assert bench.written[3].startswith("WARNING metadata of t is old ... and 59 more like this in 60 s")


def test_library_lines_are_limited_even_without_a_limit_for_the_gateway() -> None:
    bench = Bench(limit=0)
    for _ in range(500):
        bench.logger().warning("mine")
        bench.logger("aiokafka").warning("Sending username and password in the clear")
    assert len(bench.written) == 501


def test_debug_lines_are_not_limited() -> None:
    bench = Bench(limit=1)
    for _ in range(50):
        bench.logger().debug("frame")
    assert len(bench.written) == 50


def test_summary_lines_keep_their_own_counts() -> None:
    bench = Bench(limit=1)
    for left_out in (0, 7, 3):
        bench.logger().warning("policy violation", extra={"left_out": left_out})
    bench.turn(60)
    assert bench.written[-1].endswith("... and 12 more like this in 60 s left_out=12")


def test_suppressed_lines_are_reported_at_exit() -> None:
    bench = Bench(limit=1)
    for _ in range(5):
        bench.logger().warning("again")
    bench.now_ns = 7 * SECOND
    bench.handler.close()
    assert bench.written[-1] == "WARNING again ... and 4 more like this in 7 s left_out=4"


def test_memory_is_bounded_for_any_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.runtime.repeated_lines._WINDOWS_LIMIT", 50)
    lines = RepeatedLines(1_000, 60 * SECOND, "sluicegate")
    told = passed = 0
    for number in range(2_000):
        text = f"{chr(97 + number % 26)}{chr(97 + number // 26)}"
        record = logging.LogRecord("sluicegate.x", logging.INFO, "", 0, text, None, None)
        told += sum(vars(summary)["left_out"] for summary in lines.ended(number))
        passed += lines.passes(record, number)
        assert len(lines._windows) <= 55
    assert passed + told + sum(vars(each)["left_out"] for each in lines.ended(0, all_of_them=True)) == 2_000


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["sluicegate.a", "sluicegate.b", "lib"]),
            st.sampled_from("xyz"),
            st.integers(0, 90),
        ),
        max_size=200,
    ),
    st.integers(0, 3),
)
def test_every_line_is_written_or_counted_once(offered: list[tuple[str, str, int]], limit: int) -> None:
    lines = RepeatedLines(limit, 60 * SECOND, "sluicegate")
    now_ns = written = told = 0
    for name, text, seconds in offered:
        now_ns += seconds * SECOND
        told += sum(vars(summary)["left_out"] for summary in lines.ended(now_ns))
        record = logging.LogRecord(name, logging.WARNING, "", 0, "text %s", (text,), None)
        written += lines.passes(record, now_ns)
    told += sum(vars(summary)["left_out"] for summary in lines.ended(now_ns, all_of_them=True))
    assert written + told == len(offered)
    assert told == lines.left_out


class FullDisk(io.StringIO):
    """A stream that takes nothing while it is full."""

    full = False

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_a_log_on_a_full_disk_reports_its_losses_once_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = FullDisk()
    noise = io.StringIO()
    monkeypatch.setattr(sys, "stderr", noise)
    bench = Bench(stream=stream)
    stream.full = True
    for letter in "abc":
        bench.logger().error("lost %s", letter)
    stream.full = False
    bench.logger().error("kept")
    bench.logger().error("kept too")
    assert bench.written == [
        "ERROR   kept",
        "ERROR   3 lines of this log may be missing: [Errno 28] No space left on device",
        "ERROR   kept too",
    ]
    assert noise.getvalue() == ""


def test_json_lines_have_the_count_as_a_field() -> None:
    bench = Bench(limit=1)
    bench.handler.setFormatter(logs.JsonLines({"broker": "main"}))
    for _ in range(3):
        bench.logger().warning("again")
    bench.turn(60)
    entries = [json.loads(line) for line in bench.stream.getvalue().splitlines()]
    assert [entry.get("left_out") for entry in entries] == [None, 2]
    assert entries[1]["broker"] == "main"


def test_setup_limits_all_loggers() -> None:
    stream = io.StringIO()
    logs.set_up("info", "text", stream, repeats=3, repeat_window_ms=60_000)
    for _ in range(100):
        logging.getLogger("sluicegate.anything").warning("again")
        logging.getLogger("some.library").warning("once")
    assert len(stream.getvalue().splitlines()) == 4
    assert logs.tell_left_out() == 97 + 99
