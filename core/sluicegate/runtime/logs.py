"""The gateway's own log: text or JSON lines on standard error, never one for each message."""

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from copy import copy
from datetime import UTC, datetime
from textwrap import indent
from time import monotonic_ns
from typing import IO, Literal

import orjson

from sluicegate.model import visible, visible_json
from sluicegate.runtime.repeated_lines import RepeatedLines

_PLAIN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
JSON_KEYS = frozenset({"time", "level", "logger", "message", "traceback"})
"""Keys that mean the same in every JSON line; no field may take their place."""
_MS = 1_000_000
_OWN = "sluicegate"
_NEVER = logging.CRITICAL + 1


def set_up(
    level: str,
    style: Literal["text", "json"],
    stream: IO[str] | None = None,
    *,
    repeats: int = 10,
    repeat_window_ms: int = 60_000,
    silenced: Iterable[str] = (),
    **always: object,
) -> None:
    """Send the log to a stream: the gateway's own lines, and warnings of the libraries that it uses.

    :param level: least severe level of the gateway's own lines, such as `info`.
    :param style: `json` for one object a line.
    :param stream: standard error if not given.
    :param repeats: lines of the same text within a window; further ones are counted; 0 writes all.
    :param repeat_window_ms: how long a window lasts.
    :param silenced: loggers of libraries whose failures the gateway logs itself; written only if `level` is
        `debug`.
    :param always: fields that every line carries, such as the broker's name.
    """
    lines = RepeatedLines(repeats, repeat_window_ms * _MS, _OWN)
    handler = LimitedHandler(stream or sys.stderr, lines)
    handler.setFormatter(JsonLines(always) if style == "json" else TextLines(always))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_OWN).setLevel(level.upper())
    for name in silenced:
        logging.getLogger(name).setLevel(logging.WARNING if level == "debug" else _NEVER)


def _fields(record: logging.LogRecord, always: dict[str, object]) -> dict[str, object]:
    """All fields of a line: those of every line, then its own.

    A field of its own whose name is taken, as `level` is, gets the prefix `field_`.
    """
    fields = dict(always)
    for name, value in vars(record).items():
        if name not in _PLAIN:
            fields[f"field_{name}" if name in JSON_KEYS or name in always else name] = value
    return fields


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the fields given as `extra`."""

    def __init__(self, always: dict[str, object]) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        """Make the line, without its end."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record, self._always),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return visible_json(orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode())


class TextLines(logging.Formatter):
    """Lines for people: time, level, message, then the fields as `name=value`.

    A traceback follows in lines of its own, indented, so that no text of an exception looks like a line of
    the log.
    """

    def __init__(self, always: dict[str, object]) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        """Make the line, without its end."""
        tail = "".join(f" {name}={value!r}" for name, value in _fields(record, self._always).items())
        line = visible(f"{_time(record)} {record.levelname:<7} {record.getMessage()}{tail}")
        if not record.exc_info:
            return line
        traceback = visible(self.formatException(record.exc_info), keep="\n")
        return f"{line}\n{indent(traceback, '  ')}"


class LimitedHandler(logging.StreamHandler[IO[str]]):
    """Writes the lines of all loggers of a process, except repetitions.

    Lines of libraries have no traceback: it becomes the words of its exception. A stream that takes nothing,
    as of a file on a full disk, is reported before the next line that it takes.

    :param stream: where lines go.
    :param lines: which ones.
    :param now_ns: gives the monotonic time.
    """

    def __init__(
        self, stream: IO[str], lines: RepeatedLines, now_ns: Callable[[], int] = monotonic_ns
    ) -> None:
        super().__init__(stream)
        self._lines = lines
        self._now_ns = now_ns
        self._unwritten = 0
        self._problem: OSError | None = None

    @property
    def left_out(self) -> int:
        """Lines left out so far because they repeated others."""
        return self._lines.left_out

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line unless it repeats others too often; first write the summaries that are due."""
        now_ns = self._now_ns()
        for summary in self._lines.ended(now_ns):
            self._write(summary)
        if self._lines.passes(record, now_ns):
            self._write(record if record.name.partition(".")[0] == _OWN else _without_traceback(record))

    def tell_left_out(self, *, all_of_it: bool = False) -> None:
        """Write the summaries of windows that have ended, even if no further line comes.

        :param all_of_it: in those that have not ended, too.
        """
        with self.lock or nullcontext():
            for summary in self._lines.ended(self._now_ns(), all_of_them=all_of_it):
                self._write(summary)

    def close(self) -> None:
        """Log what was left out, and accept no further lines."""
        self.tell_left_out(all_of_it=True)
        super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - a name of the logging package
        """Count a line that the stream did not take; by default a traceback would go to that stream."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            self._unwritten += 1
            self._problem = error
        else:
            super().handleError(record)

    def _write(self, record: logging.LogRecord) -> None:
        before = self._unwritten
        super().emit(record)
        if before and self._unwritten == before:
            self._unwritten = 0
            text = f"{before} lines of this log may be missing: {self._problem}"
            super().emit(logging.LogRecord(__name__, logging.ERROR, "", 0, text, None, None))


def _without_traceback(record: logging.LogRecord) -> logging.LogRecord:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return record
    short = copy(record)
    short.msg, short.args = f"{record.getMessage()}: {type(error).__name__}: {error}", None
    short.exc_info = short.exc_text = None
    return short


def limited_handlers() -> list[LimitedHandler]:
    """The handlers that `set_up` installed, if this process has called it."""
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, LimitedHandler)]


def left_out() -> int:
    """Lines that the log of this process left out so far."""
    return sum(handler.left_out for handler in limited_handlers())


def tell_left_out() -> int:
    """Write the summaries of lines that the log of this process left out; call it once a second.

    :return: how many lines were left out so far.
    """
    for handler in limited_handlers():
        handler.tell_left_out()
    return left_out()
