"""One entry for topics whose names fit a pattern and whose limits are similar, each policy on its own.

A pattern has one `*`, as policy files allow: at the end of a name (`orders.*`) or for one part of it
(`tenant*.orders`). It has a limit only if every topic of the log that it matches gets it from there. What a
topic needs else is in entries of its own or of other patterns, as a gateway merges entries field by field.
"""

import re
from bisect import bisect_left
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TypeAlias

from sluicegate_reports.recommending.policy_file import Advice, Limit

FEWEST = 3
"""Topics that make a pattern."""
ALIKE = 2.0
"""Limits are alike if the highest is at most this multiple of the lowest."""
_TOPICS = 10_000
"""Topics whose names are tried as patterns, to bound the memory."""
_PARTS = 12
"""Parts of a name at which a pattern is tried."""
_COMPARED = 20_000_000
"""Most comparisons of names with patterns: about 5 s."""
_NAMED = 3
"""Topics that a pattern's remark names."""
_SEPARATOR = re.compile(r"([./:_-])")
_PARTITION = re.compile(r"-part(ition)?-\d+$")
_Pattern: TypeAlias = tuple[str, str]
"""The text before the star and after it."""


def merged(advice: Sequence[Advice], names: Sequence[str]) -> list[Advice]:
    """The same limits with patterns where that is possible: patterns first, then topics by name.

    Of each policy a pattern gets the highest limit of its topics. A topic whose limits are all in patterns
    has no entry of its own.

    :param advice: an entry for each topic, each name once.
    :param names: of all topics of the log, those without advice too.
    """
    known = _Names(names)
    left = {each.topic: {limit.policy: limit for limit in each.limits} for each in advice}
    patterns: list[Advice] = []
    for pattern in _candidates(advice):
        topics = known.matching(pattern, left)
        if len(topics) >= FEWEST and (limits := _shared([(topic, left[topic]) for topic in topics])):
            patterns.append(_entry(pattern, topics, limits))
            for topic in topics:
                left[topic] = {name: own for name, own in left[topic].items() if name not in limits}
    single = [
        replace(each, limits=tuple(left[each.topic].values()))
        for each in advice
        if left[each.topic] or not each.limits
    ]
    by_topic = attrgetter("topic")
    return [*sorted(patterns, key=by_topic), *sorted(single, key=by_topic)]


class _Names:
    """All names by which a file can refer to the topics of a log."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._sorted = sorted({(name, topic) for topic in topics for name in _aliases(topic)})
        self._left = _COMPARED

    def matching(self, pattern: _Pattern, advised: Container[str]) -> list[str]:
        """Topics that a pattern matches, in order; none if one of them is not among the advised.

        A pattern must match no topic without advice, none by a shorter form of its name alone, and none that
        the entry of another topic is for as well: that would replace the pattern's limits.
        """
        before, _ = pattern
        topics: dict[str, None] = {}
        start = bisect_left(self._sorted, (before, ""))
        for index in range(start, min(len(self._sorted), start + self._left)):
            name, topic = self._sorted[index]
            if not name.startswith(before):
                self._left -= index - start
                return list(topics)
            if _fits(name, pattern):
                # A shorter form alone may be no name of the topic, so its limits would be lost.
                if topic not in advised or not _fits(topic, pattern) or _has_a_name_of(advised, topic):
                    self._left -= index - start
                    return []
                topics[topic] = None
        whole = start + self._left >= len(self._sorted)
        self._left -= min(self._left, len(self._sorted) - start)
        return list(topics) if whole else []


def _has_a_name_of(advised: Container[str], topic: str) -> bool:
    """Whether a shorter form of a topic's name is the name of another topic."""
    return any(name != topic and name in advised for name in _aliases(topic))


def _fits(name: str, pattern: _Pattern) -> bool:
    before, behind = pattern
    enough = len(name) >= len(before) + len(behind)
    return enough and name.startswith(before) and name.endswith(behind)


def _aliases(topic: str) -> Iterator[str]:
    """A topic's names: the full one, shorter forms, and that of the topic whose partition it is.

    More than a system accepts: that may cost a pattern, and never limits a topic by mistake.
    """
    for name in {topic, _PARTITION.sub("", topic)}:
        yield name
        rest = name
        while "/" in rest:
            rest = rest.partition("/")[2]
            yield rest


def _candidates(advice: Sequence[Advice]) -> list[_Pattern]:
    """Patterns that fit several names, by number of topics and then by length, both descending."""
    count: dict[_Pattern, int] = {}
    for each in advice[:_TOPICS]:
        for pattern in set(_patterns(each.topic)) if each.limits else ():
            count[pattern] = count.get(pattern, 0) + 1
    several = [pattern for pattern, topics in count.items() if topics >= FEWEST]
    return sorted(several, key=lambda pattern: (-count[pattern], -len("".join(pattern)), pattern))


def _patterns(topic: str) -> Iterator[_Pattern]:
    """Patterns of one name: from each of its parts on, and for each part alone."""
    domain, separator, path = topic.rpartition("://")
    parts = list(_parts(path))
    for index, part in enumerate(parts[:_PARTS]):
        if _SEPARATOR.fullmatch(part):
            continue
        before = "".join(parts[:index])
        for behind in ("", "".join(parts[index + 1 :])):
            # A star alone, or with separators only, would match any name.
            if any(sign.isalnum() for sign in before + behind):
                yield f"{domain}{separator}{before}", behind


def _parts(path: str) -> Iterator[str]:
    """Separators and the parts between them; a number at the end of a word is a separate part."""
    for piece in _SEPARATOR.split(path):
        word = piece.rstrip("0123456789")
        yield from (part for part in (word, piece[len(word) :]) if part)


def _shared(topics: Sequence[tuple[str, Mapping[str, Limit]]]) -> dict[str, Limit]:
    """The highest limit of each policy that all topics have and whose limits are alike.

    :param topics: their names, with what no pattern has yet, by policy.
    """
    shared: dict[str, Limit] = {}
    _, first = topics[0]
    for policy in first:
        several = [(limits[policy], topic) for topic, limits in topics if policy in limits]
        highest, of_topic = max(several, key=lambda each: each[0].value)
        lowest = min(limit.value for limit, _ in several)
        if len(several) == len(topics) and highest.value <= ALIKE * lowest:
            shared[policy] = replace(highest, why=f"{highest.why}, of {of_topic}")
    return shared


def _entry(pattern: _Pattern, topics: Sequence[str], limits: Mapping[str, Limit]) -> Advice:
    more = f" and {len(topics) - _NAMED:,} more" if len(topics) > _NAMED else ""
    names = ", ".join(topics[:_NAMED])
    remark = f"{len(topics):,} topics, of each policy the highest limit of all: {names}{more}"
    return Advice("*".join(pattern), tuple(limits.values()), (remark,), covers=tuple(topics))
