"""One entry for topics whose names fit a pattern and whose limits are similar.

A pattern has one `*`, as policy files allow: at the end of a name (`orders.*`) or for one part of it
(`tenant*.orders`). It is used only if every topic of the log that it matches gets the limits of its entry.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
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
_TOLD = 3
"""Topics that a pattern's remark names."""
_SEPARATOR = re.compile(r"([./:_-])")
_PARTITION = re.compile(r"-part(ition)?-\d+$")
_Pattern: TypeAlias = tuple[str, str]
"""The text before the star and after it."""


def merged(advice: Sequence[Advice], names: Sequence[str]) -> list[Advice]:
    """The same advice with patterns for topics where that is possible: patterns first, then topics by name.

    Of each policy a pattern gets the highest limit of its topics.

    :param advice: an entry for each topic, each name once.
    :param names: of all topics of the log, those without advice too.
    """
    known = _Names(names)
    single = {each.topic: each for each in advice}
    patterns: list[Advice] = []
    for pattern in _candidates(advice):
        topics = known.matching(pattern, single)
        if len(topics) >= FEWEST and _alike([single[topic] for topic in topics]):
            patterns.append(_entry(pattern, [single.pop(topic) for topic in topics]))
    by_topic = attrgetter("topic")
    return [*sorted(patterns, key=by_topic), *sorted(single.values(), key=by_topic)]


class _Names:
    """All names by which a file can refer to the topics of a log."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._sorted = sorted({(name, topic) for topic in topics for name in _aliases(topic)})
        self._left = _COMPARED

    def matching(self, pattern: _Pattern, advised: Mapping[str, Advice]) -> list[str]:
        """Topics that a pattern matches, in order; none if one of them is not among the advised.

        A pattern must match no topic without advice, none that another pattern covers already, and none by a
        shorter form of its name alone.
        """
        before, _ = pattern
        found: dict[str, None] = {}
        start = bisect_left(self._sorted, (before, ""))
        for index in range(start, min(len(self._sorted), start + self._left)):
            name, topic = self._sorted[index]
            if not name.startswith(before):
                self._left -= index - start
                return list(found)
            if _fits(name, pattern):
                # A shorter form alone may be no name of the topic, so its limits would be lost.
                if topic not in advised or not _fits(topic, pattern):
                    self._left -= index - start
                    return []
                found[topic] = None
        whole = start + self._left >= len(self._sorted)
        self._left -= min(self._left, len(self._sorted) - start)
        return list(found) if whole else []


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
    for place, part in enumerate(parts[:_PARTS]):
        if _SEPARATOR.fullmatch(part):
            continue
        before = "".join(parts[:place])
        for behind in ("", "".join(parts[place + 1 :])):
            # A star alone, or with separators only, would match any name.
            if any(sign.isalnum() for sign in before + behind):
                yield f"{domain}{separator}{before}", behind


def _parts(path: str) -> Iterator[str]:
    """Separators and the parts between them; a number at the end of a word is a separate part."""
    for piece in _SEPARATOR.split(path):
        word = piece.rstrip("0123456789")
        yield from (part for part in (word, piece[len(word) :]) if part)


def _alike(advice: Sequence[Advice]) -> bool:
    """Whether all have limits of the same policies, and the limits of each policy are alike."""
    policies = {limit.policy for limit in advice[0].limits}
    values: dict[str, list[int]] = {}
    for each in advice:
        if {limit.policy for limit in each.limits} != policies:
            return False
        for limit in each.limits:
            values.setdefault(limit.policy, []).append(limit.value)
    return bool(values) and all(max(several) <= ALIKE * min(several) for several in values.values())


def _entry(pattern: _Pattern, advice: Sequence[Advice]) -> Advice:
    limits: dict[str, Limit] = {}
    for each in advice:
        for limit in each.limits:
            if limit.policy not in limits or limits[limit.policy].value < limit.value:
                limits[limit.policy] = replace(limit, why=f"{limit.why}, of {each.topic}")
    more = f" and {len(advice) - _TOLD:,} more" if len(advice) > _TOLD else ""
    names = ", ".join(each.topic for each in advice[:_TOLD])
    remark = f"{len(advice):,} topics, of each policy the highest limit of all: {names}{more}"
    return Advice("*".join(pattern), tuple(limits.values()), (remark,), topics=len(advice))
