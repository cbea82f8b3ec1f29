"""Quantities with units, such as `10MiB`, `500/s` and `30s`, parsed to whole base units; hosts and addresses.

Each type of a quantity is an annotated `int`: a count, bytes or milliseconds. Rates, per second, may be
fractions, as from `30/min`.
0 is always valid and means unlimited (or no delay). An unset field is different: it inherits.
"""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from ipaddress import ip_address
from math import isfinite
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from sluicegate.config.secrets import shown_value
from sluicegate.model.policy import MAX_DELAY_MS

U32_MAX = 2**32 - 1
"""Largest count, rate or size; every broker's own policies can represent it."""

STORAGE_MAX = 2**50
MAX_DURATION_MS = 366 * 24 * 3600 * 1000
"""Longest duration: a year; a larger value is most likely a wrong unit."""

_NUMBER = re.compile(
    r"(?P<sign>-?)(?P<number>[0-9][0-9_]{0,19}(?:\.[0-9]{1,9})?) ?"
    r"(?P<suffix>[A-Za-zµ]*)(?:/(?P<per>s|min|h))?"
)


def refuse(problem: str, remedy: str, sibling: str = "") -> PydanticCustomError:
    """Create the error that validators raise. The remedy is printed under the caret.

    :param problem: what is wrong, in lower case, with the value.
    :param remedy: what to write instead.
    :param sibling: suffix of a related field that would accept the value, such as `bytes`.
    """
    context = {"problem": problem, "remedy": remedy, "sibling": sibling}
    return PydanticCustomError("sluicegate", "{problem}", context)


_DECIMALS = 9
_PERIODS = {"s": 1, "min": 60, "h": 3_600}
_NOTHING = frozenset({"unlimited", "unbounded", "infinite", "infinity", "inf", "none", "off", "no limit"})
"""Words that are written for 0."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Annotation that parses and validates one kind of quantity."""

    noun: str
    """Name of the unit for messages: `bytes`, `messages per second`; empty for plain counts."""
    example: str
    """Example values, for remedies."""
    maximum: int
    suffixes: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Factor by suffix, largest first; the empty suffix is always 1."""
    is_rate: bool = False
    """True for amounts per second: `/s`, `/min` or `/h` may follow."""
    words: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Suffix by common misspelling, such as `min` by `minutes`, for remedies."""

    def parse(self, value: object) -> int | float:
        """Parse a value from a file, the environment or a command line.

        :param value: a number in base units, whole unless it is a rate, or text with a suffix.
        :return: base units, 0 to `maximum`; an `int` if they are whole.
        :raises PydanticCustomError: for anything else, with the remedy in its context.
        """
        if isinstance(value, float) and self.is_rate and isfinite(value):
            value = int(value) if value.is_integer() else round(value, _DECIMALS)
        elif isinstance(value, bool) or not isinstance(value, int | str):
            raise self._invalid(value)
        amount = self._parse_text(value) if isinstance(value, str) else value
        if amount < 0:
            raise refuse(f"{value!r} is negative", self._zero)
        if amount > self.maximum:
            raise refuse(
                f"{value!r} is too large: at most {self.text(self.maximum)}", "write 0 for unlimited"
            )
        return amount

    def _parse_text(self, text: str) -> int | float:
        match = _NUMBER.fullmatch(text.strip())
        if match is None or (match["per"] and not self.is_rate):
            raise self._invalid(text)
        suffix = match["suffix"]
        if suffix and suffix not in self.suffixes:
            sibling = "bytes" if self is MESSAGE_RATE and _is_unit(suffix, BYTE_RATE) else ""
            raise refuse(
                f"unknown unit {suffix!r} in {shown_value(text)}", self._suffix_remedy(suffix), sibling
            )
        amount = Decimal(match["sign"] + match["number"].replace("_", "")) * self.suffixes.get(suffix, 1)
        seconds = _PERIODS[match["per"] or "s"]
        if amount % seconds == 0:
            return int(amount / seconds)
        if not self.is_rate:
            raise self._invalid(text)
        return float(amount) / seconds

    def _invalid(self, value: object) -> PydanticCustomError:
        kind = "a number" if self.is_rate else "a whole number"
        wanted = f"{kind} of {self.noun}" if self.noun else kind
        means_zero = isinstance(value, str) and value.strip().lower() in _NOTHING
        remedy = self._zero if means_zero else f"write {self.example}"
        return refuse(f"{shown_value(value)} is not {wanted}", remedy)

    @property
    def _zero(self) -> str:
        """The remedy for a value that is to limit nothing."""
        nothing = "none" if self.noun == DURATION.noun else "unlimited"
        return f"write 0 for {nothing}, or remove the field to inherit"

    def _suffix_remedy(self, suffix: str) -> str:
        if not self.suffixes:
            return f"write {self.example}"
        lowered = {known.lower(): known for known in reversed(tuple(self.suffixes))} | dict(self.words)
        close = difflib.get_close_matches(suffix.lower(), lowered, n=1)
        guess = f"did you mean {lowered[close[0]]!r}? " if close else ""
        return f"{guess}known units: {', '.join(self.suffixes)}"

    def text(self, amount: float) -> str:
        """Format an amount in its shortest exact form, which `parse` reads back unchanged."""
        if isinstance(amount, float):
            if not amount.is_integer():
                return self._fraction_text(amount)
            amount = int(amount)
        tail = "/s" if self.is_rate else ""
        for suffix, factor in self.suffixes.items():
            if amount and amount % factor == 0:
                return f"{amount // factor}{suffix}{tail}"
        return f"{amount}{tail}"

    def _fraction_text(self, amount: float) -> str:
        """A fraction, for the shortest period in which it is whole; else with few decimal places."""
        for period, seconds in _PERIODS.items():
            whole = round(amount * seconds)
            if whole / seconds == amount:
                return f"{self.text(whole).removesuffix('/s')}/{period}"
        for period, seconds in _PERIODS.items():
            text = f"{amount * seconds:.{_DECIMALS}f}".rstrip("0")
            if float(text) / seconds == amount:
                return f"{text}/{period}"
        return f"{amount:.{_DECIMALS}f}/s"

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # The inner schema keeps the field's own constraints, such as `gt=0`.
        return core_schema.no_info_before_validator_function(self.parse, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        suffixes = "|".join(re.escape(suffix) for suffix in self.suffixes)
        pattern = r"^\s*[0-9][0-9_]{0,19}(\.[0-9]{1,9})? ?" + (f"({suffixes})?" if suffixes else "")
        pattern += (r"(/(s|min|h))?" if self.is_rate else "") + r"\s*$"
        return {
            "anyOf": [
                {"type": "number" if self.is_rate else "integer", "minimum": 0, "maximum": self.maximum},
                {"type": "string", "pattern": pattern},
            ],
            "x-unit": self.noun or "count",
        }


_BINARY_FIRST = {
    "GiB": 2**30,
    "GB": 10**9,
    "MiB": 2**20,
    "MB": 10**6,
    "KiB": 2**10,
    "kB": 10**3,
    "KB": 10**3,
    "B": 1,
}
_MESSAGES = {"M": 10**6, "k": 10**3}
_TIMES = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "m": 60_000, "s": 1_000, "ms": 1}

_TIME_WORDS = {
    "days": "d",
    "hours": "h",
    "hrs": "h",
    "minutes": "min",
    "mins": "min",
    "seconds": "s",
    "secs": "s",
    "milliseconds": "ms",
    "millis": "ms",
    "msecs": "ms",
}

COUNT = Unit("", "a number such as 100", U32_MAX)
MESSAGE_RATE = Unit(
    "messages per second", "500, '500/s', '10k/s' or '30/min'", U32_MAX, _MESSAGES, is_rate=True
)
BYTE_RATE = Unit("bytes per second", "'10MiB/s' or bytes as 10485760", U32_MAX, _BINARY_FIRST, is_rate=True)
SIZE = Unit("bytes", "'10MiB' or bytes as 10485760", U32_MAX, _BINARY_FIRST)
STORAGE = Unit("bytes", "'4GiB' or bytes as 4294967296", STORAGE_MAX, _BINARY_FIRST)
DURATION = Unit(
    "milliseconds",
    "'30s', '500ms', '1h' or milliseconds as 30000",
    MAX_DURATION_MS,
    _TIMES,
    words=_TIME_WORDS,
)
DELAY = Unit(
    "milliseconds", "'30s', '500ms', '7d' or milliseconds as 30000", MAX_DELAY_MS, _TIMES, words=_TIME_WORDS
)

MOST_WORKERS = 64


def _workers(value: object) -> object:
    if value == "auto":
        return min(MOST_WORKERS, len(os.sched_getaffinity(0)))
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_WORKERS:
        raise ValueError(f"expected 1 to {MOST_WORKERS} processes, or auto for one for each core")
    return value


Count: TypeAlias = Annotated[int, COUNT]
"""How many of something: 0 to 4294967295."""
MessageRate: TypeAlias = Annotated[int | float, MESSAGE_RATE]
"""Messages per second: `500`, `500/s`, `10k/s`, `30/min`, `0.5/s`."""
ByteRate: TypeAlias = Annotated[int | float, BYTE_RATE]
"""Bytes per second: `10485760`, `10MiB/s`, `10MB/s`."""
Size: TypeAlias = Annotated[int, SIZE]
"""Bytes: `10485760`, `10MiB`, `10MB`."""
StorageSize: TypeAlias = Annotated[int, STORAGE]
"""Bytes on disk: `4294967296`, `4GiB`; up to 1 PiB."""
Duration: TypeAlias = Annotated[int, DURATION]
"""Milliseconds: `30000`, `30s`, `500ms`, `1h`."""
Delay: TypeAlias = Annotated[int, DELAY]
"""Delivery delay in milliseconds, up to a hundred years: `30000`, `30s`, `7d`."""


def _is_unit(suffix: str, unit: Unit) -> bool:
    return suffix.lower() in {known.lower() for known in unit.suffixes}


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise refuse(f"{value!r} is not a number of seconds", "write a number such as 1.0")
    return value


Workers: TypeAlias = Annotated[int, BeforeValidator(_workers), Field(strict=True)]
"""Processes of a broker: 1 to 64, or `auto` for as many as there are cores."""
Share: TypeAlias = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False, strict=True)]
"""A fraction, such as 0.9."""
Seconds: TypeAlias = Annotated[float, BeforeValidator(_no_bool), Field(gt=0, le=3600, allow_inf_nan=False)]
"""A positive number of seconds up to an hour, with fractions."""


HTTP_URL = r"^https?://[^/\s]+(/\S*)?$"
"""Pattern of URLs that are requested: `http://broker:8080/metrics/`."""
_HOST_NAME = re.compile(r"[^\s:/*@\[\]]+")
_HOST_NUMBERS = re.compile(r"[0-9.]+")


def check_host(value: str) -> str:
    """Refuse what can be neither the name nor the address of a host; names are not looked up.

    :raises PydanticCustomError: if it is neither, such as a host with its port.
    """
    try:
        ip_address(value)
    except ValueError:
        if not _HOST_NAME.fullmatch(value) or _HOST_NUMBERS.fullmatch(value):
            remedy = "write a host's name, or an address such as 127.0.0.1 or ::1, without a port"
            raise refuse(f"{shown_value(value)} is not a host", remedy) from None
    return value


Host: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(check_host)]
"""A host's name or address: `gate.example`, `127.0.0.1`, `::1`."""


class Address(NamedTuple):
    """Host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:\[\]/]+)):(?P<port>[0-9]{1,5})")


def parse_address(value: object) -> Address:
    """Read `host:port` or `[v6]:port`.

    :raises PydanticCustomError: if it is neither, or the port is not 1 to 65535.
    """
    if isinstance(value, Address):
        return value
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise refuse(
            f"{shown_value(value)} is not an address", "write 'host:port' or '[ipv6]:port', port 1 to 65535"
        )
    return Address(match["v6"] or match["host"], int(match["port"]))


HostPort: TypeAlias = Annotated[
    Address,
    BeforeValidator(parse_address),
    WithJsonSchema({"type": "string", "pattern": r"^(\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):[0-9]{1,5}$"}),
]
"""`host:port`, kept as an `Address`."""
ListenPort: TypeAlias = Annotated[int, Field(ge=0, le=65535, strict=True)]
"""A port to listen on; 0 picks a free one, for tests and demos."""
