"""Rate limits on repeated log lines, for all loggers of a process.

Lines are grouped at three widths: the same text and `detail` with all numbers masked, the same message
template, and the same logger. Each width has its own window, with room for ten times as many lines as the one
before. A line whose window is full is left out and counted there, once. When the window ends, a summary gives
the number of lines left out. So at every instant offered = written + left out and summarized + left out and
not yet summarized.
"""

import logging
import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

_SECOND_NS = 1_000_000_000
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|\d+")
_WIDER = 10
"""How many times as many lines a wider window lets through."""
_WINDOWS_LIMIT = 4_096
_KEY_CHARS = 200
_SUMMARY_CHARS = 500
_SUBJECTS = ("topic", "policy", "broker", "listener")
"""Fields that distinguish lines of the same text."""

_Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class _Window:
    """The lines of one group since the first of them."""

    began_ns: int
    passed: int = 0
    left_out: int = 0
    record: logging.LogRecord | None = field(default=None, repr=False)
    """The last line that was left out."""


class RepeatedLines:
    """Decides which lines are written; not safe for threads: a handler calls it under its lock.

    :param limit: lines of the same text in one window; 0 lets all pass, those of libraries excepted.
    :param window_ns: how long a window lasts.
    :param own: first part of the names of the gateway's own loggers; a library has room for one line of each
        template.
    """

    def __init__(self, limit: int, window_ns: int, own: str) -> None:
        self.left_out = 0
        """Lines left out so far."""
        self._limit = limit
        self._window_ns = window_ns
        self._own = own
        # All windows last equally long, so the first is always the one that ends next.
        self._windows: OrderedDict[_Key, _Window] = OrderedDict()

    def passes(self, record: logging.LogRecord, now_ns: int) -> bool:
        """Whether a line is written; lines for debugging always are.

        :param record: the line; if it stands for others (`left_out`), these are counted too.
        :param now_ns: monotonic time; `ended` was called with it before.
        """
        if record.levelno < logging.INFO:
            return True
        windows = []
        for key, limit in self._widths(record):
            window = self._windows.get(key)
            if window is not None and window.passed >= limit:
                self._leave_out(window, record)
                return False
            windows.append((key, window))
        for key, window in windows:
            if window is None:
                window = self._windows[key] = _Window(now_ns)
            window.passed += 1
        return True

    def ended(self, now_ns: int, *, all_of_them: bool = False) -> Iterator[logging.LogRecord]:
        """Yield the summary of each window that has ended or exceeds the most that are kept, once.

        :param now_ns: monotonic time.
        :param all_of_them: end all windows.
        """
        while self._windows:
            key, window = next(iter(self._windows.items()))
            is_over = now_ns - window.began_ns >= self._window_ns
            if not (is_over or all_of_them or len(self._windows) > _WINDOWS_LIMIT):
                return
            del self._windows[key]
            if window.record is not None:
                yield _summary(window.record, window.left_out, now_ns - window.began_ns)

    def _widths(self, record: logging.LogRecord) -> Iterator[tuple[_Key, int]]:
        """Keys of the windows of a line, narrow ones first, each with how many lines it lets through."""
        name, template = record.name, _masked(str(record.msg))
        if name.partition(".")[0] != self._own:
            yield (name, record.levelno, template), 1
            yield (name,), max(self._limit, 1) * _WIDER * _WIDER
        elif self._limit:
            fields = vars(record)
            subjects = (fields.get(subject) for subject in _SUBJECTS)
            said = _masked(record.getMessage()), _masked(str(fields.get("detail", "")))
            yield (name, record.levelno, *said, *subjects), self._limit
            yield (name, record.levelno, template), self._limit * _WIDER
            yield (name,), self._limit * _WIDER * _WIDER

    def _leave_out(self, window: _Window, record: logging.LogRecord) -> None:
        stands_for = vars(record).get("left_out")
        count = 1 + (stands_for if isinstance(stands_for, int) else 0)
        window.left_out += count
        window.record = record
        self.left_out += count


def _masked(text: str) -> str:
    """The key of a text: its first line, without numbers.

    asyncio puts the faulty object on a second line, which is different each time.
    """
    return _NUMBER.sub("0", text[:_KEY_CHARS].partition("\n")[0])


def _summary(record: logging.LogRecord, left_out: int, lasted_ns: int) -> logging.LogRecord:
    text = record.getMessage().partition("\n")[0][:_SUMMARY_CHARS]
    summary = f"{text} ... and {left_out} more like this in {lasted_ns / _SECOND_NS:.0f} s"
    made = logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, summary, None, None)
    for subject in _SUBJECTS:
        if (value := vars(record).get(subject)) is not None:
            setattr(made, subject, value)
    made.left_out = left_out
    return made
