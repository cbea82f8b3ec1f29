"""`sluicegate report diff` and `trend`: comparisons against earlier ones.

Exit codes: 0 done, 1 a threshold of --fail-on is not passed, 2 wrong use, or something that cannot be read.
"""

from typing import TYPE_CHECKING

import click

from sluicegate_reports.commands import output
from sluicegate_reports.commands.fail_on import Wanted, option
from sluicegate_reports.commands.locations import FILE
from sluicegate_reports.commands.usage import Unusable
from sluicegate_reports.model.locations import Location, one_line

if TYPE_CHECKING:
    from sluicegate_reports.model.results import Results


@click.command("diff")
@click.argument("before", type=FILE, metavar="BEFORE.json")
@click.argument("after", type=FILE, metavar="AFTER.json")
@output.options
@option
def diff(
    before: Location, after: Location, out: Location | None, form: str | None, fail_on: tuple[Wanted, ...]
) -> None:
    """Compare the results of a comparison with earlier ones: what is better, worse, the same.

    Both files are what `sluicegate report compare DIR --format json` wrote. Figures of repeated runs are the
    same where their intervals overlap, those of single runs within a tenth of the bound. Thresholds:
    worse_cells, gone_cells, worse_thresholds. Needs neither Spark nor Java.
    """
    from sluicegate_reports.model.differences import difference

    chosen = output.chosen(out, form)
    output.deliver(difference(_comparison(before), _comparison(after)), out, chosen, fail_on)


@click.command("trend")
@click.argument("results", type=FILE, nargs=-1, required=True, metavar="RESULTS.json...")
@output.options
@option
def trend(
    results: tuple[Location, ...], out: Location | None, form: str | None, fail_on: tuple[Wanted, ...]
) -> None:
    """Line up the results of several comparisons: what became better or worse, from run to run and over all.

    Each file is what `sluicegate report compare DIR --format json` wrote; they are put in the order in which
    their runs began. Figures count as the same as in `sluicegate report diff`. Threshold: worse_cells, of the
    last run against the first. Needs neither Spark nor Java.
    """
    from sluicegate_reports.model.trends import trend as lined_up

    if len(results) < 2:
        raise click.UsageError("a trend needs at least two files")
    chosen = output.chosen(out, form)
    output.deliver(lined_up([_comparison(file) for file in results]), out, chosen, fail_on)


def _comparison(file: Location) -> "Results":
    results = read_results(file)
    if results.verdict is None:
        raise Unusable(f"{str(file)!r}: not the results of a comparison, but of another command")
    return results


def read_results(file: Location) -> "Results":
    """Read the JSON form of a report.

    :raises Unusable: if it cannot be read, or is something else.
    """
    from sluicegate_reports.model.results import ResultsError, from_json

    try:
        return from_json(file.read_bytes())
    except OSError as error:
        raise Unusable(f"cannot read {str(file)!r}: {one_line(error)}") from None
    except ResultsError as error:
        raise Unusable(f"{str(file)!r}: {error}") from None
