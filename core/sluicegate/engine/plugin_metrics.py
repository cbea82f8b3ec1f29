"""Metrics that plugins publish."""

from collections.abc import Sequence
from typing import Protocol


class Gauge(Protocol):
    """A number that goes up and down."""

    def set(self, value: float, *labels: str) -> None:
        """Set it.

        :param labels: values of its labels, in the order of their names.
        """

    def clear(self) -> None:
        """Remove all its values, such as those of topics that no longer exist."""


class Counter(Protocol):
    """A number that only increases."""

    def inc(self, amount: float = 1, *labels: str) -> None:
        """Add to it.

        :param labels: values of its labels, in the order of their names.
        """


class Metrics(Protocol):
    """Metrics of a plugin, published with a label `broker` before their own; any thread may set them.

    Beyond 1,000 combinations of label values, further ones count as `other`.
    """

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:  # noqa: A002
        """A gauge; the same object for the same name.

        :param name: a valid Prometheus name.
        :param help: one sentence.
        :param labels: names of its labels.
        :raises ValueError: if another kind of metric has the name, or it is invalid.
        """

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:  # noqa: A002
        """A counter; the same object for the same name. Parameters and errors as for `gauge`.

        :param name: without `_total`, which is added.
        """
