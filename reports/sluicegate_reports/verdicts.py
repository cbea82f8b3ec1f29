"""When a policy counts as kept: the only place that says so.

A verdict compares one trial's figures with what the policy says.

| verdict | rates | counts, sizes, delays asked for | fixed delay | unacknowledged |
| --- | --- | --- | --- | --- |
| exact | every window within EXACT_SHARE and what came at once, first second at most rate + burst | no wrong answer | none early, p99 within EXACT_LATE_MS | exactly the limit was reached |
| within | every window within WITHIN_SHARE, first second too | | none early, p99 within WITHIN_LATE_MS | the limit was not reached |
| off | else | any wrong answer | else | more than the limit |

What could not be told is missing: of counts refusals that would be wrong if the policy made them, where it cannot be
told that it did; of unacknowledged messages what files of version 1 do not say. docs/reports.md has it in words.

What a system has that is only nearest to the policy (`Trial.nearest`) is never called exact, however near.
"""  # noqa: E501

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluicegate_reports.results import Verdict
from sluicegate_reports.runs import Family, Trial

WINDOW_S = 20
"""Length of the windows that rates are measured over: long enough that a second's burst does not hide in the
mean, short enough that nobody has to wait; what the benchmarks measure too."""
EXACT_SHARE = 0.005
"""Of the rate: clients start, stop and are scheduled by an operating system; what they do about it in 20 s is
less than this, and so cannot be told from an exact limiter."""
WITHIN_SHARE = 0.05
"""Of the rate: what operators take for kept, and what a limiter that counts by seconds stays within."""
EXACT_LATE_MS = 250.0
"""p99 of a delayed delivery: brokers look for what is due in ticks of up to 100 ms, twice on the way."""
WITHIN_LATE_MS = 1_000.0
"""Brokers' default tick for delayed delivery is one second."""

Figures = Mapping[str, float | None]
"""What was measured of a trial, by measure; what is missing or None was not."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one trial shows."""

    verdict: Verdict
    figure: float | None = None
    bound: float | None = None
    """What the figure may be at most for `within`."""
    unit: str = ""
    text: str = ""


def judge(trial: Trial, figures: Figures) -> Finding:
    """The verdict over one trial.

    :param figures: those of its family, see the functions below.
    """
    if trial.not_applicable:
        return Finding(Verdict.NOT_APPLICABLE, text=trial.not_applicable)
    if trial.missing:
        return Finding(Verdict.MISSING, text=trial.missing)
    finding = _BY_FAMILY[trial.measured.family](trial, figures)
    if trial.nearest and finding.verdict is not Verdict.MISSING:
        verdict = Verdict.WITHIN if finding.verdict is Verdict.EXACT else finding.verdict
        text = f"{finding.text}; nearest, not the same: {trial.nearest}"
        return Finding(verdict, finding.figure, finding.bound, finding.unit, text)
    return finding


def worst_finding(findings: Sequence[Finding]) -> Finding:
    """The one that decides a cell: the worst verdict, and of these the largest figure."""
    order = list(Verdict)
    return max(findings, key=lambda each: (order.index(each.verdict), each.figure or 0))


def _rate(trial: Trial, figures: Figures) -> Finding:
    """Of a rate: `above`, `below` (relative), `largest`, `first_second`, `allowed`, `window_s`, `slack`.

    The slack is what may fall on either side of the first second, where times are not exact.
    """
    above, below = figures.get("above"), figures.get("below")
    first, allowed = figures.get("first_second"), figures.get("allowed")
    if first is None or allowed is None:
        return Finding(
            Verdict.MISSING, text="nothing was admitted in this phase, or nothing was written down"
        )
    window_s = figures.get("window_s") or WINDOW_S
    # A window cannot end in the middle of an operation.
    grain = (figures.get("largest") or 0) / (trial.limit * window_s)
    low = -below if trial.saturated and below is not None else 0.0
    error = None if above is None else max(above, low, 0.0)
    most = max(allowed, figures.get("largest") or 0) + (figures.get("slack") or 0)
    over = max(0.0, first - most) / allowed
    worst = max(over, error or 0.0)
    text = f"{window_s:g} s windows {_percent(above)}"
    if trial.saturated:
        text += f" to {_percent(below)}"
    text += f", first second {first:,.0f} of {allowed:,.0f} {trial.measured.unit.partition('/')[0]}"
    if error is None:
        return Finding(
            Verdict.MISSING, text=f"the phase is too short for a window once the burst is spent; {text}"
        )
    if not trial.saturated and above is not None and above < -EXACT_SHARE:
        text += "; no window came up to the limit"
    bound = WITHIN_SHARE * 100
    if error <= EXACT_SHARE + grain and not over:
        if error > EXACT_SHARE:
            at_once = f"{figures.get('largest') or 0:,.0f} {trial.measured.unit.partition('/')[0]}"
            text += f"; exact to its grain: {at_once} came at once, {grain * 100:.2f} % of a window"
        return Finding(Verdict.EXACT, worst * 100, bound, "%", text)
    verdict = Verdict.WITHIN if worst <= WITHIN_SHARE + grain else Verdict.OFF
    return Finding(verdict, worst * 100, bound, "%", text)


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{share * 100:+.2f} %"


def _answers(trial: Trial, figures: Figures) -> Finding:
    """Of what is answered one by one: `wrongly_admitted`, `wrongly_refused`, and how many were tried.

    Of counts also `otherwise`, `unclear` and `doubtful`, see `counts.folded`.
    """
    admitted, refused = figures.get("wrongly_admitted"), figures.get("wrongly_refused")
    tried = figures.get("attempts")
    if admitted is None or refused is None or not tried:
        return Finding(Verdict.MISSING, text="nobody tried, or nothing was written down")
    if figures.get("above") == 0:
        return Finding(Verdict.MISSING, text="nothing above the limit was tried")
    wrong, doubtful = admitted + refused, figures.get("doubtful") or 0
    text = f"{wrong:,.0f} of {tried:,.0f} answers wrong"
    if wrong:
        text += f": {admitted:,.0f} let in, {refused:,.0f} refused"
    if figures.get("otherwise"):
        text += f"; {figures['otherwise']:,.0f} more refused, not by this policy"
    if figures.get("unclear"):
        text += f"; of {figures['unclear']:,.0f} refused it cannot be told whether it was this policy"
    if doubtful:
        text += f", and {doubtful:,.0f} of them would be wrong"
    if doubtful and not wrong:
        return Finding(Verdict.MISSING, text=text)
    verdict = Verdict.OFF if wrong else Verdict.EXACT
    return Finding(verdict, wrong, 0, "answers", text)


def _delay(trial: Trial, figures: Figures) -> Finding:
    """Of a fixed delay: `messages`, `early`, `least_ms`, `p99_ms`."""
    early, late = figures.get("early"), figures.get("p99_ms")
    if early is None or late is None or not figures.get("messages"):
        return Finding(Verdict.MISSING, text="no message was received in this phase")
    least = figures.get("least_ms")
    text = f"{early:,.0f} early, p99 {late:,.0f} ms late"
    if early:
        text += f", the earliest by {-(least or 0):,.0f} ms"
        return Finding(Verdict.OFF, late, WITHIN_LATE_MS, "ms", text)
    for verdict, bound in ((Verdict.EXACT, EXACT_LATE_MS), (Verdict.WITHIN, WITHIN_LATE_MS)):
        if late <= bound:
            return Finding(verdict, late, WITHIN_LATE_MS, "ms", text)
    return Finding(Verdict.OFF, late, WITHIN_LATE_MS, "ms", text)


def _unacked(trial: Trial, figures: Figures) -> Finding:
    """Of unacknowledged messages: `most`, `acknowledged`, `untold`, see `bounds.unacked`."""
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
    return Finding(verdict, most, trial.limit, "messages", text)


_BY_FAMILY = {
    Family.RATE: _rate,
    Family.COUNT: _answers,
    Family.SIZE: _answers,
    Family.ASKED_DELAY: _answers,
    Family.DELAY: _delay,
    Family.UNACKED: _unacked,
}
