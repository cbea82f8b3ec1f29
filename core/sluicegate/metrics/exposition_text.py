"""Writes metric families in Prometheus' text format.

`prometheus_client.generate_latest` writes the same bytes in several times the time, as it checks each name
anew; meanwhile the workers of a busy machine get less of it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from prometheus_client.core import Metric
from prometheus_client.utils import floatToGoString

_number: Callable[[float], str] = floatToGoString
_SUFFIXES = {"counter": "_total"}
_LABEL_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_:]")
_NAMES, _VALUES = 1_024, 16_384
"""Different names, and values of labels, that are remembered; most come again in each family."""


def text_of(families: Iterable[Metric]) -> bytes:
    """Counters, gauges and histograms, in the order in which they come; their samples have no time stamps."""
    return "".join(line for family in families for line in _lines(family)).encode()


def _lines(family: Metric) -> Iterator[str]:
    name = _plain(family.name + _SUFFIXES.get(family.type, ""))
    yield f"# HELP {name} {family.documentation.translate(_HELP_ESCAPES)}\n# TYPE {name} {family.type}\n"
    for sample in family.samples:
        labels = ",".join([f'{key}="{_escaped(value)}"' for key, value in sorted(sample.labels.items())])
        braced = f"{{{labels}}}" if labels else ""
        yield f"{_plain(sample.name)}{braced} {_number(sample.value)}\n"


@lru_cache(_NAMES)
def _plain(name: str) -> str:
    """A name of a metric, which broker plugins may choose."""
    return _NOT_PLAIN.sub("_", name)


@lru_cache(_VALUES)
def _escaped(value: str) -> str:
    return value.translate(_LABEL_ESCAPES)
