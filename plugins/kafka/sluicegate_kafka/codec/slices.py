"""Reading in slices: generators that yield to other work, and return the result."""

from collections.abc import Callable, Generator
from functools import wraps
from typing import ParamSpec, TypeAlias, TypeVar

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.primitives import MALFORMED

Result = TypeVar("Result")
_Params = ParamSpec("_Params")
Slices: TypeAlias = Generator[None, None, Result]

ENTRIES_PER_SLICE = 1_000
"""Topics or partitions that are read in one slice, some 1 us each."""


def at_once(slices: Slices[Result]) -> Result:
    """Run all slices without a pause."""
    while True:
        try:
            next(slices)
        except StopIteration as ended:
            result: Result = ended.value
            return result


def guarded_slices(function: Callable[_Params, Slices[Result]]) -> Callable[_Params, Slices[Result]]:
    """As `primitives.guarded`, for a reader that works in slices."""

    @wraps(function)
    def reader(*args: _Params.args, **kwargs: _Params.kwargs) -> Slices[Result]:
        try:
            return (yield from function(*args, **kwargs))
        except MALFORMED as error:
            raise ProtocolError(f"truncated or garbled: {error}") from error

    return reader
