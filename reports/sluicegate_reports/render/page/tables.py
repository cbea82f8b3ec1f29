"""Tables of the page: the rows behind figures; wide tables are split, as paper does not scroll."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluicegate_reports.model.quantities import NOT_MEASURED
from sluicegate_reports.model.results import Origin, RunFacts, Table, Value
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.render.cells import command, is_number, left_out, scaled_columns, texts
from sluicegate_reports.render.page.markup import Markup, grid, join, scrolled, tag

_FOLDED = 8
"""Tables with more rows are folded."""
_WIDE = 8
"""Tables with more columns are split."""
_BLOCK = 7
"""Columns of figures in one block, as many as paper has room for."""
_NAMES = ("system", "door", "policy", "phase", "topic", "subscription", "seen by")
"""Columns that identify the owner of a row; a wide table merges them into one."""
_ARM = ("system", "door")
_VERDICT = "verdict"
_Row = list[tuple[str, Value]]


def table(
    shown: Table,
    run: RunFacts,
    anchor: str,
    most: int,
    most_origins: int = 1_000,
    class_: str | None = None,
) -> Markup:
    """A table of rows, folded if it is long.

    :param anchor: its id.
    :param most: rows.
    :param most_origins: rows whose location in the logs is shown.
    :param class_: `points` is not printed.
    """
    if not shown.rows:
        return tag("p", "None.", class_="absent", id=anchor)
    title = shown.title or shown.name or "Rows"
    fitted = scaled_columns(shown)
    rows = list(texts(fitted, run, most))
    note = left_out(shown, len(rows)) or f"{len(rows):,} row{'s' if len(rows) != 1 else ''}"
    own = len(shown.origins) == len(shown.rows) and not any(origin.name for origin in shown.origins)
    origins = shown.origins[: min(most, most_origins)] if own else shown.origins[:most_origins]
    drawn = _Drawn(title, fitted.columns, rows, anchor, len(origins) if own else 0)
    summary = tag("summary", tag("span", title), " ", tag("small", note))
    details = tag(
        "details",
        summary,
        scrolled(title, *drawn.blocks()),
        drawn.absent(),
        open=len(rows) <= _FOLDED,
        class_=class_,
    )
    return join(details, _origins(origins, anchor, class_))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One table as it is drawn: in one piece, or in blocks that each begin with the row's owner."""

    title: str
    columns: Sequence[str]
    rows: Sequence[_Row]
    anchor: str
    linked: int
    """Number of its rows that link to their source."""

    @property
    def wide(self) -> bool:
        return len(self.columns) > _WIDE

    @property
    def names(self) -> list[int]:
        """Columns that identify the owner of a row."""
        if not self.wide:
            return []
        return [index for index, name in enumerate(self.columns) if name in _NAMES]

    @property
    def figures(self) -> list[int]:
        """All other columns; a wide table omits those without any value."""
        others = [index for index in range(len(self.columns)) if index not in self.names]
        if not self.wide:
            return others
        return [index for index in others if any(row[index][1] is not None for row in self.rows)]

    def absent(self) -> Markup:
        """Notes on columns without any value and on arms without the policy."""
        said = []
        names = [name for index, name in enumerate(self.columns) if index not in {*self.names, *self.figures}]
        if names and self.rows:
            said.append(f"{NOT_MEASURED.capitalize()} in any row: {', '.join(names)}.")
        arms = dict.fromkeys(self._arm(row) for row in self.rows if self._inapplicable(row))
        if arms:
            said.append(f"{Verdict.NOT_APPLICABLE.text.capitalize()}: {', '.join(arms)}.")
        return join(*(tag("p", text, class_="absent") for text in said))

    def blocks(self) -> Iterator[Markup]:
        """The tables, the first of which has the ids."""
        figures = self.figures
        size = _BLOCK if self.wide else max(1, len(figures))
        count = max(1, -(-len(figures) // size))
        even = -(-len(figures) // count)
        for number in range(count):
            yield self._block(figures[number * even : (number + 1) * even], first=number == 0)

    def _block(self, indices: list[int], *, first: bool) -> Markup:
        whose = ", ".join(self.columns[index] for index in self.names)
        head = [tag("th", whose, scope="col")] if self.names else []
        head += [tag("th", self.columns[index], scope="col") for index in indices]
        if first and self.linked:
            head.append(tag("th", "rows", scope="col", class_="from"))
        body = [
            self._line(index, row, indices, first=first)
            for index, row in enumerate(self.rows)
            if not (self._inapplicable(row) if first else self._empty(row))
        ]
        return grid(self.title, [tag("tr", *head)], body, id_=self.anchor if first else None)

    def _line(self, index: int, row: _Row, indices: list[int], *, first: bool) -> Markup:
        cells = [self._whose(row)] if self.names else []
        if first and self.names and self._empty(row):
            text = row[self.columns.index(_VERDICT)][0] if _VERDICT in self.columns else NOT_MEASURED
            cells.append(tag("td", text, colspan=str(len(indices)), class_="absent"))
        else:
            cells += [tag("td", row[p][0], class_="n" if is_number(row[p][1]) else None) for p in indices]
        if first and index < self.linked:
            cells.append(tag("td", tag("a", "Parquet", href=f"#{self.anchor}-{index}-from"), class_="from"))
        return tag("tr", *cells, id=f"{self.anchor}-{index}" if first else None)

    def _whose(self, row: _Row) -> Markup:
        names = [row[index][0] for index in self.names if self.columns[index] not in _ARM]
        return tag(
            "th", self._arm(row), tag("small", " · ".join(text for text in names if text)), scope="row"
        )

    def _arm(self, row: _Row) -> str:
        return " ".join(row[index][0] for index in self.names if self.columns[index] in _ARM)

    def _inapplicable(self, row: _Row) -> bool:
        """Whether a row of a wide table only says that the policy does not apply."""
        if not self.names or _VERDICT not in self.columns:
            return False
        verdict = row[self.columns.index(_VERDICT)][0]
        return verdict == Verdict.NOT_APPLICABLE.text and self._empty(row)

    def _empty(self, row: _Row) -> bool:
        """Whether no figure of a row was measured; a limit is not a figure."""
        values = [
            row[index][1]
            for index in self.figures
            if self.columns[index] != _VERDICT and not self.columns[index].startswith("limit")
        ]
        return all(value is None for value in values)


def _origins(origins: Sequence[Origin], anchor: str, class_: str | None) -> Markup:
    """The sources of a table's rows, as a list in the order of the rows."""
    items = [
        tag(
            "li",
            f"{origin.name}: " if origin.name else "",
            tag("code", command(origin)),
            id=f"{anchor}-{index}-from",
        )
        for index, origin in enumerate(origins)
    ]
    if not items:
        return Markup()
    summary = tag("summary", "Commands that show these rows, in the directory of the run")
    return tag("details", summary, tag("ol", *items), class_=f"origins {class_}" if class_ else "origins")
