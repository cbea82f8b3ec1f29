"""Compares producers' receipts with the stored messages.

Values are of the form `lane:number` (`family.numbered`), padded with blanks perhaps; each lane is what one
producer sent, in the order of its numbers.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.pulsar.real.support.family import Published, Received


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong; all of them empty is a clean history."""

    lost: list[str]
    """Confirmed, but not in the topic."""
    duplicated: list[str]
    """In the topic more than once."""
    reordered: list[str]
    """Stored behind a later one of the same lane (first copies only)."""
    failed_but_stored: list[str]
    """In the topic although the client was told that it failed."""
    misplaced: list[str]
    """Confirmed with another entry than where it lies."""
    foreign: list[str]
    """In the topic, but never sent."""

    def assert_clean(self, *, but: str = "") -> None:
        """Fail with examples if anything is wrong.

        :param but: a kind that the caller looks at himself.
        """
        wrong = {name: found for name in self.__slots__ if (found := getattr(self, name)) and name != but}
        counts = {name: len(found) for name, found in wrong.items()}
        examples = {name: [one[:20] for one in found[:5]] for name, found in wrong.items()}
        assert not wrong, f"history is not clean: {counts}, such as {examples}"


def number_of(value: str) -> int:
    """A value's number in its lane."""
    return int(value.rpartition(":")[2])


def lanes(received: Sequence[Received]) -> dict[str, list[int]]:
    """First deliveries of each lane, in their order."""
    found: dict[str, dict[int, None]] = defaultdict(dict)
    for one in received:
        found[one.value.rpartition(":")[0]].setdefault(number_of(one.value))
    return {lane: list(numbers) for lane, numbers in found.items()}


def judge(published: Sequence[Published], stored: Sequence[Received]) -> Verdict:
    """Compare what producers were told with all that the topic holds.

    :param published: of all producers of the topic; each value has one answer.
    :param stored: a read-back, in the order of the topic.
    """
    copies = Counter(one.value for one in stored)
    places = defaultdict(set)
    for one in stored:
        places[one.value].add(one.entry)
    behind = []
    for lane, numbers in lanes(stored).items():
        behind += [f"{lane}:{at}" for at, before in zip(numbers[1:], numbers, strict=False) if at < before]
    answered = {one.value for one in published}
    return Verdict(
        lost=[one.value for one in published if one.entry and one.value not in copies],
        duplicated=[value for value, count in copies.items() if count > 1],
        reordered=behind,
        failed_but_stored=[one.value for one in published if not one.entry and one.value in copies],
        misplaced=[
            one.value
            for one in published
            if one.entry and one.value in places and one.entry not in places[one.value]
        ],
        foreign=[value for value in copies if value not in answered],
    )
