"""Verdicts on rates: each error is a share of what a window admits, and the worst one counts.

A gateway is judged by its log and by what its clients saw. Where one of the two is off and the other shows
nothing, or both tell of different amounts, the trial is disputed. What the log alone shows to be kept is
unconfirmed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sluicegate_reports.model.finding import Figures, Finding
from sluicegate_reports.model.quantities import part, quantity
from sluicegate_reports.model.runs import Trial, measured_as
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.verdicts.thresholds import EXACT_SHARE, WINDOW_S, WITHIN_SHARE

SEEN = "seen_"
"""Before the name of a figure: as clients saw it, where the others are the log's."""
DISPUTE = "the log and the clients disagree"
_ALONE = "by the log alone"
_NOTHING = "nothing was admitted in this phase, or nothing was written down"


def rate(trial: Trial, figures: Figures) -> Finding:
    """The verdict by the log and by the clients, or by what there is.

    :param figures: of each source see `_Seen`; those of the clients beside a log begin with SEEN, and are
        None where no client saw anything.
    """
    own = _Seen(trial, figures).finding()
    seen = {name.removeprefix(SEEN): value for name, value in figures.items() if name.startswith(SEEN)}
    if not seen:
        return own
    told = _difference(trial, figures, seen)
    if told:
        return replace(own, verdict=Verdict.DISPUTED, text=f"{DISPUTE}: {told}; log: {own.text}")
    if seen.get("admitted") is None:
        kept = own.verdict in (Verdict.EXACT, Verdict.WITHIN)
        return replace(own, verdict=Verdict.UNCONFIRMED, text=f"{_ALONE}: {own.text}") if kept else own
    # Only the log shows batches: clients get an answer for each message.
    largest = max(seen.get("largest") or 0, figures.get("largest") or 0)
    clients = _Seen(trial, {**seen, "largest": largest, "pressed": figures.get("pressed")}).finding()
    off = own.verdict is Verdict.OFF
    # Clients without figures for too little do not contradict it.
    contradicted = clients.verdict is Verdict.EXACT and seen.get("below") is not None
    if (clients.verdict is Verdict.OFF and not off) or (off and contradicted):
        figure = max(own.figure or 0, clients.figure or 0)
        text = f"{DISPUTE}: log {own.text}; clients {clients.text}"
        return replace(own, verdict=Verdict.DISPUTED, figure=figure, unit="%", text=text)
    return own


def _difference(trial: Trial, figures: Figures, seen: Figures) -> str:
    """By how much the two differ in all that was admitted, if it is more than the bound."""
    log, clients = figures.get("admitted_messages"), seen.get("admitted_messages")
    if log is None or clients is None:
        return ""
    largest = figures.get("largest_messages") or 1
    allowed = WITHIN_SHARE * log + largest + (figures.get("under_way") or 0)
    # Messages on their way at either end appear in one of the two only.
    at_first, at_last = seen.get("carried_messages") or 0, seen.get("unanswered") or 0
    if -allowed - at_last <= clients - log <= allowed + at_first:
        return ""
    return f"{log:,.0f} messages were admitted by the log, {clients:,.0f} by the clients"


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one source tells: `above`, `below` (relative; with `_net`: less one operation), `largest`,
    `first_second`, `allowed`, `overshoot`, `wrongly_admitted`, `wrongly_refused`, `judged`, `otherwise`,
    `window_s`, `slack` (what times that are not exact may put on either side), `behind` (what clients had yet
    to see at most, and `first_behind` when they saw the first), `pressed` (windows in which the clients were
    limited), `unused` (share that they did not ask for).
    """  # noqa: D205 - one list

    trial: Trial
    figures: Figures

    def finding(self) -> Finding:
        """The verdict by this source alone."""
        figures = self.figures
        if figures.get("first_second") is None or figures.get("allowed") is None:
            return Finding(Verdict.MISSING, text=_NOTHING)
        errors = list(self._errors())
        worst = max(error for _, error in errors)
        text = self._text()
        for name, error in errors:
            if error > EXACT_SHARE and name:
                text += f"; {name}"
        bound = WITHIN_SHARE * 100
        unmeasured = self._unmeasured()
        if worst > WITHIN_SHARE or not unmeasured:
            grain = self._grain() if worst <= EXACT_SHARE else ""
            over = self._first_over() > 0
            verdict = Verdict.EXACT if worst <= EXACT_SHARE and not over else Verdict.WITHIN
            verdict = Verdict.OFF if worst > WITHIN_SHARE else verdict
            return Finding(verdict, worst * 100, bound, "%", text + grain)
        return Finding(Verdict.MISSING, text=f"{unmeasured}; {text}")

    @property
    def _unit(self) -> str:
        """Of amounts: the limit's, without the second."""
        return measured_as(self.trial).unit.partition("/")[0]

    def _of(self, name: str) -> float:
        return self.figures.get(name) or 0.0

    @property
    def _window_s(self) -> float:
        return self.figures.get("window_s") or WINDOW_S

    @property
    def _in_window(self) -> float:
        return self.trial.limit * self._window_s

    def _errors(self) -> Iterator[tuple[str, float]]:
        """Each figure as a share of what a window admits, with the words for it."""
        grain, slack = self._of("largest") / self._in_window, self._of("slack") / self._in_window
        below = self._below()
        yield self._over(grain, slack)
        if below is not None:
            net = self.figures.get("below_net")
            name = "" if self.trial.saturated else "clients were held back below the limit"
            yield name, max(0.0, -(below + grain if net is None else net) - slack)
        yield "", self._first_over() / self._of("allowed")
        judged = self._of("judged")
        for name, words in (
            ("wrongly_admitted", "wrongly admitted"),
            ("wrongly_refused", "wrongly refused"),
        ):
            count = self._of(name)
            # One answer at a boundary is no error of a short phase.
            yield f"{count:,.0f} {words}", (count if count > 1 else 0.0) / max(judged, 1.0)
        otherwise = self._of("misattributed")
        yield f"{otherwise:,.0f} refused in the name of another policy", float(otherwise > 0)

    def _below(self) -> float | None:
        """The window furthest below the rate, of those in which the clients were held back.

        Clients that were not planned to ask for more may have been held back too, then wrongly.
        """
        pressed = self.figures.get("pressed")
        counts = pressed != 0 if self.trial.saturated else bool(pressed)
        return self.figures.get("below") if counts else None

    def _over(self, grain: float, slack: float) -> tuple[str, float]:
        """How far windows exceed the rate, beyond what a full bucket or one operation explains.

        Clients that pause let the bucket fill again, so a window alone shows no error: what the worst stretch
        of any length overshot has to show it too. That in turn grows with the phase, and a window does not.
        """
        of_windows = [self.figures.get(name) for name in ("above_net", "above_burst")]
        if self.figures.get("above_net") is None and self.figures.get("above") is not None:
            of_windows.append(self._of("above") - grain)
        above = max((error - slack for error in of_windows if error is not None), default=None)
        if self.figures.get("overshoot") is None:
            return "", max(0.0, above or 0.0)
        at_once = max(0.0, self._of("largest") - self.trial.burst)
        # What clients caught up with is taken off each window; of a stretch it is not known.
        caught_up = self._of("behind") if above is None else 0.0
        over = max(0.0, self._of("overshoot") - at_once - caught_up - 2 * self._of("slack"))
        share = over / self._in_window
        text = f"{quantity(round(over), self._unit)} more than the limit and a full bucket"
        return text, share if above is None else max(0.0, min(share, above))

    def _first_over(self) -> float:
        most = max(self._of("allowed"), self._of("largest")) + self._of("slack") + self._of("first_behind")
        return max(0.0, self._of("first_second") - most)

    def _unmeasured(self) -> str:
        if self.figures.get("above") is None:
            return "the phase is too short for a window once the burst is spent"
        if self.trial.saturated and self.figures.get("pressed") == 0:
            return "clients too slow: in no window were they held back for half of the time"
        return ""

    def _grain(self) -> str:
        above, below = self._of("above"), self._below()
        low = -below if below is not None else 0.0
        if max(above, low) <= EXACT_SHARE or not self._of("largest"):
            return ""
        share = self._of("largest") / self._in_window * 100
        largest = quantity(round(self._of("largest")), self._unit)
        return f"; exact to its grain: {largest} came at once, {share:.2f} % of a window"

    def _text(self) -> str:
        figures = self.figures
        above, below = figures.get("above"), self._below()
        text = f"{self._window_s:g} s windows {_percent(above)}"
        if self.trial.saturated or below is not None:
            text += f" to {_percent(figures.get('below'))}"
        first, allowed = round(self._of("first_second")), round(self._of("allowed"))
        text += f", first second {part(first, allowed, self._unit)}"
        if self.trial.saturated and self._of("unused") > EXACT_SHARE:
            text += f"; clients left up to {self._of('unused') * 100:.1f} % of a window unused"
        if not self.trial.saturated and below is None and above is not None and above < -EXACT_SHARE:
            text += "; no window came up to the limit"
        return text


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{share * 100:+.2f} %"
