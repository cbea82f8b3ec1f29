"""Verdicts on rates, by the law: over every window no more than rate x its length + burst.

Nor is less right while anyone waits. A gateway is judged by its log and by what its clients saw, and the
worse of the two counts. Where the log shows the law to be kept and the clients do not, or both tell of
different amounts, the trial is disputed. What the log alone shows to be kept is unconfirmed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sluicegate_reports.model.finding import Figures, Finding, worst_finding
from sluicegate_reports.model.quantities import number, quantity
from sluicegate_reports.model.runs import Trial, measured_as
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.verdicts.thresholds import EXACT_SHARE, WITHIN_SHARE

SEEN = "seen_"
"""Before the name of a figure: as clients saw it, where the others are the log's."""
DISPUTE = "the log and the clients disagree"
_ALONE = "by the log alone"
_NOTHING = "nothing was admitted in this phase, or nothing was written down"
_NOT_REACHED = "not reached: nobody was held or refused, and clients never asked for so much"
_KEPT = (Verdict.EXACT, Verdict.WITHIN)
_SEEN_AS = {"publish": "acknowledgements", "dispatch": "receipts", "attach": "attachments"}


def rate(trial: Trial, figures: Figures) -> Finding:
    """The verdict by the log and by the clients, or by what there is.

    :param figures: of each source see `_Seen`; those of the clients beside a log begin with SEEN, and are
        None where no client saw anything.
    """
    seen = {name.removeprefix(SEEN): value for name, value in figures.items() if name.startswith(SEEN)}
    clients = f"clients' {_SEEN_AS[measured_as(trial).operation]}"
    if not seen:
        return _Seen(trial, figures, clients).finding()
    own = _Seen(trial, figures, "the log").finding()
    difference = _difference(figures, seen)
    if difference:
        return replace(own, verdict=Verdict.DISPUTED, text=f"{DISPUTE}: {difference}; log: {own.text}")
    # No client saw anything, so only the log says that the limit was kept.
    if seen.get("admitted") is None:
        kept = own.verdict in _KEPT
        return replace(own, verdict=Verdict.UNCONFIRMED, text=f"{_ALONE}: {own.text}") if kept else own
    theirs = _Seen(trial, _of_clients(seen, figures), clients).finding()
    if theirs.verdict is Verdict.OFF and own.verdict in _KEPT:
        text = f"{DISPUTE}: log {own.text}; clients {theirs.text}"
        return replace(theirs, verdict=Verdict.DISPUTED, text=text)
    return worst_finding([own, theirs]) if theirs.verdict in (*_KEPT, Verdict.OFF) else own


def _of_clients(seen: Figures, log: Figures) -> Figures:
    """Only the log shows what passed at once: clients get an answer for each message."""
    largest = max(seen.get("largest") or 0, log.get("largest") or 0)
    return {**seen, "beyond": largest - (seen.get("largest") or 0)}


def _difference(figures: Figures, seen: Figures) -> str:
    """The difference between log and clients in all that was admitted, in words; empty within the bound."""
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
    """Evidence of one source: the figures of `excess` and `shortfall`, and of wrong decisions.

    `beyond` is how much more may have passed at once than it shows.
    """

    trial: Trial
    figures: Figures
    by: str
    """The words for the source."""

    def finding(self) -> Finding:
        """The verdict by this source alone."""
        if self.figures.get("excess") is None:
            return Finding(Verdict.MISSING, text=_NOTHING)
        errors = list(self._errors())
        worst = max(error for _, error in errors)
        text = "; ".join([self._law(), *filter(None, (name for name, error in errors if error > 0))])
        # A limit that no client reached shows nothing about its enforcement.
        if worst <= WITHIN_SHARE and self._is_idle():
            return Finding(Verdict.NOT_REACHED, text=f"{_NOT_REACHED}; {text}")
        verdict = Verdict.EXACT if worst <= EXACT_SHARE else Verdict.WITHIN
        verdict = verdict if worst <= WITHIN_SHARE else Verdict.OFF
        return Finding(verdict, worst * 100, WITHIN_SHARE * 100, "%", text)

    @property
    def _unit(self) -> str:
        """Unit of amounts: the limit's, without the second."""
        return measured_as(self.trial).unit.partition("/")[0]

    def _of(self, name: str) -> float:
        return self.figures.get(name) or 0.0

    @property
    def _excess(self) -> float:
        return self._of("excess") - self._of("beyond")

    def _is_idle(self) -> bool:
        """Whether the limit was never reached, though clients were to ask for more.

        Natively something may have been held: then the bucket was empty at some time.
        """
        spent = self._of("excess") + max(self._of("largest"), 1) > 0
        return self.trial.saturated and not self._of("limited") and not spent

    def _errors(self) -> Iterator[tuple[str, float]]:
        """Each error as a share, with the words for it."""
        yield "", max(0.0, self._of("excess_share")) if self._excess > 0 else 0.0
        used = self.figures.get("used")
        share = 0.0 if used is None else 1 - used
        held = share > EXACT_SHARE and not self.trial.saturated
        yield "clients were held back below the limit" if held else "", share
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

    def _law(self) -> str:
        """The law in words: excess, and what was used."""
        return f"{self._over()}{self._used()}, by {self.by}"

    def _over(self) -> str:
        over = round(self._excess)
        if over <= 0:
            return "never more than rate x time + burst"
        excess = f"largest excess over rate x time + burst: +{quantity(over, self._unit)}"
        times = number(round(over / self.trial.burst, 2))
        window, at = number(round(self._of("excess_window_s"), 3)), number(round(self._of("excess_at_s"), 1))
        return f"{excess} ({times} x the burst) within {window} s, at {at} s"

    def _used(self) -> str:
        used = self.figures.get("used")
        if used is None:
            return ""
        waited = number(round(self._of("waited_s"), 1))
        text = f"; used {used * 100:.1f} % of what was owed while anyone waited ({waited} s)"
        if used < 1 - EXACT_SHARE:
            fell = quantity(round(self._of("fell")), self._unit)
            text += f", {fell} less from {number(round(self._of('fell_at_s'), 1))} s on"
        return text
