"""The gateway's own log: lines for people or JSON on standard error, never one for each message."""

import logging
import sys
from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, datetime
from time import monotonic_ns
from typing import IO, Literal

import orjson

_PLAIN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
JSON_KEYS = frozenset({"time", "level", "logger", "message", "traceback"})
"""Keys that mean the same in every JSON line; no field may take their place."""
_SECOND_NS = 1_000_000_000
_KEYS_LIMIT = 10_000
_LIBRARY_NS = 60 * _SECOND_NS
_OWN = "sluicegate"
_NEVER = logging.CRITICAL + 1


def set_up(
    level: str,
    style: Literal["text", "json"],
    stream: IO[str] | None = None,
    *,
    told_anew: Iterable[str] = (),
    **always: object,
) -> None:
    """Send the log to a stream: the gateway's own lines, and warnings of the libraries that it uses.

    :param level: least severe level of the gateway's own lines, such as `info`.
    :param style: `json` for one object a line.
    :param stream: standard error if not given.
    :param told_anew: loggers of libraries whose failures the gateway tells in words of its own; theirs are
        left out, unless `level` is `debug`.
    :param always: fields that every line carries, such as the broker's name.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(always) if style == "json" else TextLines(always))
    root = logging.getLogger()
    handler.addFilter(LibraryLines(monotonic_ns))
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_OWN).setLevel(level.upper())
    for name in told_anew:
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


def printable(text: str) -> str:
    """Text that clients had a hand in, such as a topic's name, without line ends and control characters."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


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
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class TextLines(logging.Formatter):
    """Lines for people: time, level, message, then the fields as `name=value`."""

    def __init__(self, always: dict[str, object]) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        """Make the line, without its end."""
        tail = "".join(f" {name}={value!r}" for name, value in _fields(record, self._always).items())
        line = f"{_time(record)} {record.levelname:<7} {printable(record.getMessage())}{tail}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Throttle:
    """Lets one line a second through for each key, and says how many were left out before it.

    :param every_ns: another time between two lines.
    """

    __slots__ = ("_every_ns", "_last")

    def __init__(self, every_ns: int = _SECOND_NS) -> None:
        self._every_ns = every_ns
        self._last: dict[Hashable, tuple[int, int]] = {}

    def passes(self, key: Hashable, now_ns: int) -> int | None:
        """Ask for a line.

        :param key: lines of the same key are thinned out together.
        :param now_ns: monotonic time.
        :return: how many lines of this key were left out since the last one; None to leave this one out too.
        """
        last_ns, left_out = self._last.get(key, (now_ns - self._every_ns, 0))
        if now_ns - last_ns < self._every_ns:
            self._last[key] = (last_ns, left_out + 1)
            return None
        if len(self._last) >= _KEYS_LIMIT:
            self._last.clear()
        self._last[key] = (now_ns, 0)
        return left_out


class LibraryLines(logging.Filter):
    """Lets a line of another logger than the gateway's own through once a minute, without its traceback.

    :param now_ns: gives the monotonic time.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        super().__init__()
        self._now_ns = now_ns
        self._throttle = Throttle(_LIBRARY_NS)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written; its traceback becomes the words of its exception."""
        if record.name.partition(".")[0] == _OWN:
            return True
        # asyncio puts the object at fault on a second line, by which no two lines would be the same.
        text = str(record.msg).partition("\n")[0]
        left_out = self._throttle.passes((record.name, text), self._now_ns())
        if left_out is None:
            return False
        if left_out:
            record.left_out = left_out
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            record.msg, record.args = f"{record.getMessage()}: {type(error).__name__}: {error}", None
            record.exc_info = record.exc_text = None
        return True
