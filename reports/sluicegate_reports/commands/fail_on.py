"""`--fail-on NAME[<=VALUE]`: thresholds that decide the exit code of a command."""

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import click

from sluicegate.output import echo
from sluicegate_reports.commands.usage import Unusable

if TYPE_CHECKING:
    from sluicegate_reports.model.results import Threshold

_FORM = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(?:<=\s*(\S+)\s*)?")
Wanted: TypeAlias = tuple[str, float | None]
"""Name of a threshold, and its bound where it is not the report's own."""


def _read(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[Wanted, ...]:
    wanted: list[Wanted] = []
    for text in given:
        match = _FORM.fullmatch(text)
        if match is None:
            _refuse(text, ctx, param)
        bound = match[2]
        try:
            value = None if bound is None else float(bound)
        except ValueError:
            _refuse(text, ctx, param)
        if value is not None and not math.isfinite(value):
            _refuse(text, ctx, param)
        wanted.append((match[1], value))
    return tuple(wanted)


def _refuse(text: str, ctx: click.Context, param: click.Parameter) -> NoReturn:
    raise click.BadParameter(
        f"{text!r} is no threshold: expected NAME, or in quotes 'NAME<=NUMBER', as in 'off_cells<=0'",
        ctx,
        param,
    )


option = click.option(
    "--fail-on",
    metavar="NAME[<=VALUE]",
    multiple=True,
    callback=_read,
    help="End with exit code 1 unless this threshold is passed; may be given several times. VALUE replaces "
    "its bound, in its own unit. Quote it: '<' means something to the shell.",
)
"""The option, which a command takes as `fail_on`."""


def decisive(thresholds: "Sequence[Threshold]", fail_on: Sequence[Wanted]) -> "dict[str, Threshold]":
    """The thresholds that decide, by name, with the bounds that were asked for.

    :raises Unusable: for one that there is not.
    """
    known = {threshold.name: threshold for threshold in thresholds}
    chosen: dict[str, Threshold] = {}
    for name, bound in fail_on:
        if name not in known:
            names = ", ".join(known) or "none"
            raise Unusable(f"--fail-on {name}: no such threshold; these results have: {names}")
        chosen[name] = known[name] if bound is None else known[name].against(bound)
    return chosen


def end(thresholds: "Sequence[Threshold]") -> None:
    """Name those that are not passed.

    :raises SystemExit: with 1, if there is one.
    """
    from sluicegate_reports.model.quantities import quantity

    failed = [threshold for threshold in thresholds if not threshold.passed]
    for each in failed:
        measured, bound = quantity(each.measured, each.unit), quantity(each.bound, each.unit)
        echo(f"failed: {each.name} is {measured}, expected at most {bound}", err=True)
    if failed:
        raise SystemExit(1)
