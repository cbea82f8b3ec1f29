"""Packs logs and computes figures in this process: what one machine reads sooner than Spark starts."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from types import MappingProxyType

import pyarrow as pa

from sluicegate_reports.transforms.packed import Key, Topic
from sluicegate_reports.transforms.packing import Cuts, Source, batches_of, packed, read, wanted
from sluicegate_reports.transforms.parts import FigurePart, Figures, Rows, merged

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Here:
    """Packed logs in memory."""

    topics: Sequence[Topic]

    def measured(self, figures: Figures) -> dict[str, Rows]:
        """Compute figures; their rows by name."""
        parts: dict[tuple[str, Key], list[FigurePart]] = {}
        for part in figures.parts(self.topics):
            parts.setdefault((part.figure, part.key), []).append(part)
        made = (
            figures.together(*name, (each.body for each in sorted(own, key=attrgetter("slice"))))
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
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for log, source in sources.items():
            for batch in chain(*pool.map(lambda part, log=log: _packed(log, part, cuts), _parts(source))):
                for row in batch.to_pylist():
                    topic_key = row["system"], row["door"], row["topic"], row["slice"]
                    gathered.setdefault(topic_key, []).append((log, row["rows"]))
    for (system, door, name, number), pieces in gathered.items():
        yield Topic(system, door, name, tuple(pieces), number)


def _parts(source: Source) -> Iterator[Source]:
    """Files that follow each other, some for each thread: Arrow works without Python's lock."""
    size = -(-len(source.files) // _AT_ONCE) or 1
    for begin in range(0, len(source.files), size):
        yield replace(source, files=source.files[begin : begin + size], tables=())
    if source.tables:
        yield replace(source, files=())


def _packed(log: str, source: Source, cuts: Cuts) -> list[pa.RecordBatch]:
    columns = wanted(log, source.kept)
    batches = chain(read(source.files, columns), batches_of(source.tables, columns))
    return list(packed(batches, log, source.kept, cuts))
