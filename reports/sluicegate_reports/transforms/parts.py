"""Figures of topics and of arms, from parts of them.

A figure has two functions: one makes a part of the rows of a topic, or of one slice of its time, the other
makes rows of all parts with one key. So it does not matter how a log was cut, nor where a part was made: in
tasks of Spark, or in this process.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from sluicegate_reports.transforms.packed import Key, Part, Topic

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]


@dataclass(frozen=True, slots=True)
class OfTopic:
    """Figures that concern one topic each."""

    name: str
    """Of this group of figures."""
    of_slice: Callable[[Topic], Any]
    """Makes the part of a slice."""
    together: Callable[[Key, Sequence[Any]], Mapping[str, Sequence[Row]]]
    """Makes rows, by name of the figure, from the key of a topic and its parts in order of time."""


@dataclass(frozen=True, slots=True)
class OfArm:
    """A figure that all topics of an arm have a part in."""

    name: str
    of_topic: Callable[[Topic], Iterable[Part]]
    together: Callable[[Any, Sequence[Any]], Iterable[Row]]
    """Makes rows from a key and all its parts; those of a topic are in order of time."""


MADE = ""
"""Sentinel in place of a figure's name: the body has rows by the name of their figure."""


class FigurePart(NamedTuple):
    """A part, or rows."""

    figure: str
    key: Key
    slice: int
    body: Any


@dataclass(frozen=True, slots=True)
class Figures:
    """What is to be computed."""

    of_topics: Sequence[OfTopic] = ()
    of_arms: Sequence[OfArm] = ()

    def nothing(self) -> dict[str, Rows]:
        """The figures of arms, without a row."""
        return {figure.name: [] for figure in self.of_arms}

    def parts(self, several: Iterable[Topic]) -> Iterator[FigurePart]:
        """The parts of some topics, or slices; rows of topics that are whole."""
        for topic in several:
            for figure in self.of_topics:
                part = figure.of_slice(topic)
                if topic.is_whole:
                    yield FigurePart(MADE, (), 0, dict(figure.together(topic.topic_key, [part])))
                else:
                    yield FigurePart(figure.name, topic.topic_key, topic.slice, part)
            # Rows without a topic are there a second time.
            for of_arm in self.of_arms if topic.name is not None else ():
                for key, part in of_arm.of_topic(topic):
                    yield FigurePart(of_arm.name, key, topic.slice, part)

    def together(self, figure: str, key: Key, parts: Iterable[Any]) -> dict[str, Rows]:
        """The rows of all parts with one key."""
        if figure == MADE:
            return merged(parts)
        for of_topic in self.of_topics:
            if of_topic.name == figure:
                return merged([of_topic.together(key, list(parts))])
        (of_arm,) = (each for each in self.of_arms if each.name == figure)
        return {figure: list(of_arm.together(key, list(parts)))}


class Logs(Protocol):
    """Packed logs, wherever they are."""

    def measured(self, figures: Figures) -> dict[str, Rows]:
        """Compute figures; their rows by name."""


def merged(several: Iterable[Mapping[str, Sequence[Row]]]) -> dict[str, Rows]:
    """The rows of all by name of their figure."""
    by_figure: dict[str, Rows] = {}
    for rows_of in several:
        for figure, rows in rows_of.items():
            by_figure.setdefault(figure, []).extend(rows)
    return by_figure
