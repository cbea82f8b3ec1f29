"""When a policy counts as kept: the only room that decides it.

A verdict compares one trial's figures with what the policy says; docs/reports.md has the rules in words.

| module | judges |
| --- | --- |
| `rates` | rates, by the gateway's log and by its clients: what exceeds the law, and what was owed |
| here | counts, sizes and delays asked for (no wrong answer), fixed delays, unacknowledged messages |
| `delivery` | what became of the messages, which takes part in every verdict |
| `metrics` | figures that other packages bring, each by its own rule |
| `thresholds` | the bounds |

What a system has that is only nearest to the policy (`Trial.nearest`) is never called exact, however near.
"""

from dataclasses import replace

from sluicegate_reports.model.finding import Figures, Finding, worst_finding
from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.verdicts.delivery import with_deliveries
from sluicegate_reports.verdicts.metrics import with_metrics
from sluicegate_reports.verdicts.rates import DISPUTE, rate
from sluicegate_reports.verdicts.thresholds import (
    EARLY_MS,
    EXACT_LATE_MS,
    WITHIN_LATE_MS,
    WITHIN_SHARE,
)

__all__ = ["Figures", "Finding", "judge", "worst_finding"]


def judge(trial: Trial, figures: Figures) -> Finding:
    """The verdict over one trial.

    :param figures: those of its family, see the functions below.
    """
    if trial.not_applicable:
        return Finding(Verdict.NOT_APPLICABLE, text=trial.not_applicable)
    if trial.missing:
        return Finding(Verdict.NOT_PLAYED, text=trial.missing)
    finding = _BY_FAMILY[measured_as(trial).family](trial, figures)
    finding = with_metrics(with_deliveries(finding, trial, figures), trial, figures)
    if trial.nearest and finding.verdict not in (Verdict.MISSING, Verdict.NOT_REACHED):
        verdict = Verdict.WITHIN if finding.verdict is Verdict.EXACT else finding.verdict
        return replace(
            finding, verdict=verdict, text=f"{finding.text}; nearest, not the same: {trial.nearest}"
        )
    return finding


def _answers(trial: Trial, figures: Figures) -> Finding:
    """Verdict on yes-or-no decisions: `wrongly_admitted`, `wrongly_refused`, and how many were tried.

    Also `otherwise`; of messages `failed`, `refused` and `log_refused`, see `bounds` and `rejections`; of
    counts `unclear` and `doubtful`, see `counts.folded`, and `served`.
    """
    admitted, refused = figures.get("wrongly_admitted"), figures.get("wrongly_refused")
    tried = figures.get("attempts")
    if admitted is None or refused is None or not tried:
        return Finding(Verdict.MISSING, text=_failed(figures) or "no client tried, or nothing was recorded")
    # A limit that nothing exceeded was not tried, however many answers were right.
    if figures.get("above") == 0:
        return Finding(Verdict.MISSING, text=_failed(figures) or "nothing above the limit was tried")
    served, doubtful = figures.get("served") or 0, figures.get("doubtful") or 0
    wrong = admitted + refused + served
    text = f"{wrong:,.0f} of {tried:,.0f} answers wrong"
    if wrong:
        text += f": {admitted:,.0f} let in, {refused:,.0f} refused"
    if served:
        text += f", {served:,.0f} refused and yet served"
    if figures.get("otherwise"):
        counts = measured_as(trial).family is Family.COUNT
        more = "more refused" if counts else "of them refused with another code"
        text += f"; {figures['otherwise']:,.0f} {more}, not by this policy"
    if figures.get("unclear"):
        text += f"; of {figures['unclear']:,.0f} refused it cannot be told whether it was this policy"
    if doubtful:
        text += f", and {doubtful:,.0f} of them would be wrong"
    if doubtful and not wrong:
        return Finding(Verdict.MISSING, text=text)
    if not wrong and (difference := _contradiction(figures)):
        return Finding(Verdict.DISPUTED, text=f"{DISPUTE}: {difference}; {text}")
    verdict = Verdict.OFF if wrong else Verdict.EXACT
    return Finding(verdict, wrong, 0, "answers", text)


def _failed(figures: Figures) -> str:
    """How many messages above the limit failed; empty if none did."""
    failed = figures.get("failed")
    return f"above the limit all {failed:,.0f} sends failed without an answer" if failed else ""


def _contradiction(figures: Figures) -> str:
    """How many more messages the policy refused by the clients than by the log; empty if they agree.

    The log may tell of more than they: some clients split a refused batch and send its messages again.
    """
    log = figures.get("log_refused")
    if log is None:
        return ""
    clients = (figures.get("refused") or 0) - (figures.get("otherwise") or 0)
    # A message at an edge of the phase may be in one of the two only.
    if clients <= log * (1 + WITHIN_SHARE) + 1:
        return ""
    return f"{log:,.0f} messages were refused by the log, {clients:,.0f} by the clients"


def _delay(trial: Trial, figures: Figures) -> Finding:
    """Verdict on a fixed delay: `messages`, `early`, `least_ms`, `p99_ms`, `beyond_p99_ms`, `soonest_ms`.

    Nothing excuses earliness. Lateness that others shared is not the delay's, yet such a delay is not exact.
    """
    early, late, soonest = figures.get("early"), figures.get("p99_ms"), figures.get("soonest_ms")
    # A message that came before it was sent shows clocks that differ: then no lateness is known.
    if soonest is not None and soonest < -EARLY_MS:
        text = "the clocks of producers and consumers differ"
        return Finding(Verdict.MISSING, text=f"{text}: a message came {-soonest:,.0f} ms before it was sent")
    if early is None or late is None or not figures.get("messages"):
        return Finding(Verdict.MISSING, text="no message was received in this phase")
    text = f"{early:,.0f} early, p99 {late:,.0f} ms late"
    if early:
        earliest = -(figures.get("least_ms") or 0.0)
        text += f", the earliest by {earliest:,.0f} ms"
        return Finding(Verdict.OFF, earliest, EARLY_MS, "ms", text)
    beyond = figures.get("beyond_p99_ms")
    shared = False
    if late > WITHIN_LATE_MS and beyond is not None and beyond < late:
        late, shared = beyond, True
        text += f", {late:,.0f} ms beyond what messages without a delay took then"
    verdict = Verdict.EXACT if late <= EXACT_LATE_MS and not shared else Verdict.WITHIN
    verdict = Verdict.OFF if late > WITHIN_LATE_MS else verdict
    return Finding(verdict, late, WITHIN_LATE_MS, "ms", text)


def _unacked(trial: Trial, figures: Figures) -> Finding:
    """Verdict on unacknowledged messages: `most` to `untold`, see `bounds.unacked_together`; `lost`.

    What never came while a consumer had fewer than the limit was withheld too early, or is lost.
    """
    most = figures.get("most")
    if most is None:
        return Finding(Verdict.MISSING, text="no message was received in this phase")
    text = f"at most {most:,.0f} unacknowledged, limit {trial.limit:,.0f}"
    if figures.get("acknowledged"):
        text += f"; {figures['acknowledged']:,.0f} were acknowledged meanwhile"
    if figures.get("untold") and most > trial.limit:
        text = (
            f"{most:,.0f} were received, and these observations, of version 1, do not tell what consumers "
            "acknowledged: record the run again"
        )
        return Finding(Verdict.MISSING, text=text)
    verdict = Verdict.OFF if most > trial.limit else Verdict.EXACT if most == trial.limit else Verdict.WITHIN
    never = figures.get("lost") or 0
    # A consumer that left took what it had along, so what never came proves nothing.
    if verdict is Verdict.WITHIN and never and not figures.get("left"):
        verdict = Verdict.OFF
        text += f"; {never:,.0f} never came, though there was room for them"
    return Finding(verdict, most, trial.limit, "messages", text)


_BY_FAMILY = {
    Family.RATE: rate,
    Family.COUNT: _answers,
    Family.SIZE: _answers,
    Family.ASKED_DELAY: _answers,
    Family.DELAY: _delay,
    Family.UNACKED: _unacked,
}
