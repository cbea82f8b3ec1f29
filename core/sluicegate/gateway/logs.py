"""The gateway's own log: lines for people or JSON on standard error, never one for each message."""

import logging
import sys
from collections.abc import Hashable
from datetime import UTC, datetime
from typing import IO, Literal

import orjson

_PLAIN = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}
_SECOND_NS = 1_000_000_000
_KEYS_LIMIT = 10_000


def set_up(
    level: str, style: Literal["text", "json"], stream: IO[str] | None = None, **always: object
) -> None:
    """Send the log to a stream: the gateway's own lines, and warnings of the libraries that it uses.

    :param level: least severe level of the gateway's own lines, such as `info`.
    :param style: `json` for one object a line.
    :param stream: standard error if not given.
    :param always: fields that every line carries, such as the broker's name.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(always) if style == "json" else TextLines(always))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("sluicegate").setLevel(level.upper())


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _PLAIN}


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
            **self._always,
            **_fields(record),
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
        fields = {**self._always, **_fields(record)}
        tail = "".join(f" {name}={value!r}" for name, value in fields.items())
        line = f"{_time(record)} {record.levelname:<7} {printable(record.getMessage())}{tail}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Throttle:
    """Lets one line a second through for each key, and says how many were left out before it."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[int, int]] = {}

    def passes(self, key: Hashable, now_ns: int) -> int | None:
        """Ask for a line.

        :param key: lines of the same key are thinned out together.
        :param now_ns: monotonic time.
        :return: how many lines of this key were left out since the last one; None to leave this one out too.
        """
        last_ns, left_out = self._last.get(key, (now_ns - _SECOND_NS, 0))
        if now_ns - last_ns < _SECOND_NS:
            self._last[key] = (last_ns, left_out + 1)
            return None
        if len(self._last) >= _KEYS_LIMIT:
            self._last.clear()
        self._last[key] = (now_ns, 0)
        return left_out
