"""Figures of the trials of other limits than rates: each looks at the topics of its own trials."""

from collections.abc import Iterator, Sequence
from functools import partial

from sluicegate_reports.model.runs import Family, Trial
from sluicegate_reports.transforms import attribution, bounds, counts, delay, rejections, served, transit
from sluicegate_reports.transforms.ahead import Ahead
from sluicegate_reports.transforms.lanes import tries
from sluicegate_reports.transforms.parts import OfArm, Rows

__all__ = ["of_others", "of_transit"]


def of_transit(trials: Sequence[Trial]) -> Iterator[OfArm]:
    """What `of_others` needs to be known before."""
    kept = transit.keeping(trials)
    if kept:
        yield OfArm("transits", partial(transit.transit, kept=kept), transit.transit_together)


def of_others(trials: Sequence[Trial], clocks: Ahead, transits: Rows, *, has_log: bool) -> Iterator[OfArm]:
    """The figures of the trials that there are.

    :param clocks: by how much gateways' clocks are ahead.
    :param transits: see `transit.transit_together`.
    :param has_log: whether there is a decision log.
    """
    if counted := tries(trials, Family.COUNT):
        yield OfArm(
            "attachments",
            partial(counts.attachments, tried=counted, clocks=clocks),
            partial(counts.attachments_together, tried=counted, by=attribution.rules(), has_log=has_log),
        )
        yield OfArm("served", partial(served.served, tried=counted), served.served_together)
    for family, name, measure in ((Family.SIZE, "sizes", "bytes"), (Family.ASKED_DELAY, "asked", "delay_ms")):
        if sent := tries(trials, family):
            messages = partial(bounds.messages, tried=sent, measure=measure)
            yield OfArm(name, messages, bounds.messages_together)
    if sent := tries(trials, Family.SIZE, Family.ASKED_DELAY):
        refused = partial(rejections.rejections, tried=sent, clocks=clocks)
        yield OfArm("rejected", refused, rejections.rejections_together)
    if held := tries(trials, Family.UNACKED):
        together = partial(bounds.unacked_together, tried=held)
        yield OfArm("unacked", partial(bounds.unacked, tried=held), together)
    if late := tries(trials, Family.DELAY):
        by_arm = {(row["system"], row["door"]): row["transit"] for row in transits}
        errors = partial(delay.errors, tried=late, transits=by_arm)
        yield OfArm("delays", errors, partial(delay.errors_together, transits=by_arm))
