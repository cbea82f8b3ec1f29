"""Packs logs and computes figures in this process: what one machine reads sooner than Spark starts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from sluicegate_reports.transforms.figures import Figures, Rows, Told, merged
from sluicegate_reports.transforms.packed import Key, Topic
from sluicegate_reports.transforms.packing import Cuts, Source, batches_of, packed, read, wanted


@dataclass(frozen=True, slots=True)
class Here:
    """Packed logs in memory."""

    topics: Sequence[Topic]

    def measured(self, figures: Figures) -> dict[str, Rows]:
        """Compute figures; their rows by name."""
        parts: dict[tuple[str, Key], list[Told]] = {}
        for part in figures.parts(self.topics):
            parts.setdefault((part.figure, part.key), []).append(part)
        made = (
            figures.together(*name, (each.body for each in sorted(own, key=_slice_of)))
            for name, own in parts.items()
        )
        return merged([figures.nothing(), *made])


def packed_here(sources: Mapping[str, Source], *, cuts: Cuts = MappingProxyType({})) -> Here:
    """Pack logs.

    :param sources: by log, `packed.DECISIONS` or `packed.OBSERVATIONS`.
    :param cuts: which topics are cut into slices.
    """
    return Here(list(_topics(sources, cuts)))


def _topics(sources: Mapping[str, Source], cuts: Cuts) -> Iterator[Topic]:
    gathered: dict[tuple[str, str, str | None, int], list[tuple[str, bytes]]] = {}
    for log, source in sources.items():
        columns = wanted(log, source.kept)
        batches = chain(read(source.files, columns), batches_of(source.tables, columns))
        for batch in packed(batches, log, source.kept, cuts):
            for row in batch.to_pylist():
                place = row["system"], row["door"], row["topic"], row["slice"]
                gathered.setdefault(place, []).append((log, row["rows"]))
    for (system, door, name, number), pieces in gathered.items():
        yield Topic(system, door, name, tuple(pieces), number)


def _slice_of(part: Told) -> int:
    return part.slice
