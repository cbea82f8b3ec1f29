"""Summarizes a comparison and its gaps in sentences."""

from collections import Counter
from collections.abc import Iterator

from sluicegate_reports.model.results import Cell, Results
from sluicegate_reports.model.verdict import UNMEASURED, Verdict
from sluicegate_reports.registry import door

NOTHING = "Nothing is missing: every arm of the scenario ran and was measured."
UNKNOWN = "the results say nothing of it"
UNCONFIRMED = "kept by the gateway's log alone, no client confirms it"
MEANINGS = {
    Verdict.NOT_APPLICABLE: "No system has any of these policies at the doors that were tried.",
    Verdict.EXACT: "Every arm did what the policies say, to the message.",
    Verdict.WITHIN: "Every arm kept to the policies within the bound that is stated for each.",
    Verdict.UNCONFIRMED: "Every policy was kept, some by the log of a gate alone: no client confirms it.",
    Verdict.NOT_REACHED: "No policy was broken, and some limits were not reached.",
    Verdict.NOT_PLAYED: "Not everything was played, and nothing that was is off.",
    Verdict.MISSING: "Not everything could be measured, and nothing that was is off.",
    Verdict.DISPUTED: "A gate's log and its clients disagree, and nothing that was measured is off.",
    Verdict.OFF: "At least one arm differs from a policy by more than its bound.",
}
"""The overall verdict in a sentence, where the results have no summary of their own."""


def heading(results: Results) -> str:
    """The text above the gaps; empty if there are none."""
    if results.verdict is None:
        return "Notes" if results.notes else ""
    return "What is missing"


def lead(results: Results) -> str:
    """What was found, in one or two sentences."""
    return results.summary or (MEANINGS[results.verdict] if results.verdict else "")


def counted(results: Results) -> str:
    """Counts of the matrix by verdict, and of passed thresholds.

    Native doors are counted separately, as thresholds judge gateways.
    """
    phrases = []
    for native in (False, True):
        mine = [cell for cell in cells(results).values() if door(cell.door).gate is not native]
        verdicts = Counter(cell.verdict for cell in mine)
        counts = [f"{verdicts[verdict]} {verdict.text}" for verdict in reversed(Verdict) if verdicts[verdict]]
        if counts:
            phrases.append(f"{'natively' if native else 'through gates'} {', '.join(counts)}")
    passed = sum(threshold.passed for threshold in results.thresholds)
    count = len(results.thresholds)
    phrases.append(f"{passed} of {count} thresholds passed" if count else "no thresholds")
    return "; ".join(phrases)


def gaps(results: Results) -> tuple[str, ...]:
    """The results' own notes, arms that did not run, cells whose figure is missing or unconfirmed."""
    arms = (f"{arm.name}: {arm.missing}" for arm in results.arms() if arm.missing)
    sentences = [*results.notes, *arms, *_cells(results)]
    return tuple(dict.fromkeys(sentences))


def cells(results: Results) -> dict[tuple[str, str, str], Cell]:
    """A cell for each policy and arm; one marked as missing where the results have none."""
    cell_of = results.cells()
    for policy in results.policies():
        for arm in results.arms():
            key = (policy, arm.system, arm.door)
            lacks = Verdict.NOT_PLAYED if arm.missing else Verdict.MISSING
            cell_of.setdefault(key, Cell(*key, lacks, text=arm.missing or UNKNOWN))
    return cell_of


def _cells(results: Results) -> Iterator[str]:
    known = {(arm.system, arm.door): arm for arm in results.arms()}
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in cells(results).values():
        arm = known[cell.system, cell.door]
        if cell.verdict is Verdict.UNCONFIRMED:
            reasons.setdefault((arm.name, UNCONFIRMED), []).append(cell.policy)
        elif cell.verdict in UNMEASURED and not (arm.missing and cell.text == arm.missing):
            why = cell.text or "not measured, and the results do not say why"
            reasons.setdefault((arm.name, why), []).append(cell.policy)
    for (name, why), policies in reasons.items():
        yield f"{name}, {', '.join(policies)}: {why}"
