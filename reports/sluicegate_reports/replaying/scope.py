"""How exactly each policy of a candidate is replayed, for the report."""

from collections.abc import Iterator

from sluicegate_reports.registry import policies
from sluicegate_reports.registry.measured import Family
from sluicegate_reports.replaying.candidate import STATES, Candidate

EXACT, BOUNDED, IN_PART, NOT_REPLAYED = "exact", "within bounds", "in part", "not replayed"
Scope = tuple[str, str, str]
"""Policy, accuracy of its replay, explanation."""

_RATES = "each operation has its time, to the microsecond"
_RATES_OF_WINDOWS = (
    "where allows are known in windows of 100 ms: 'at least' and 'at most' hold wherever they came"
)
_OVER_TOPICS = "it holds over all topics of a broker, and topics are replayed one by one"
_OF_STATE = "it follows the state of the brokers, which is not in the log"
_FIXED = {
    Family.COUNT: (
        BOUNDED,
        "the log does not tell when clients leave: at least if they leave with their last operation, at most "
        "if they never do; allows of a summary tell no clients, and are not counted",
    ),
    Family.SIZE: (
        BOUNDED,
        "exact for messages that came alone; of a batch the largest is between its mean and its whole",
    ),
    Family.DELAY: (
        IN_PART,
        "every message that is not refused is delivered that much later: told by topic and principal; "
        "whether a fixed delay was in force then is not in the log",
    ),
    Family.ASKED_DELAY: (
        IN_PART,
        "messages that were refused for it are asked again; which delay others asked for is not in the log",
    ),
}


def scope(candidate: Candidate, *, windows: bool) -> Iterator[Scope]:
    """A row for each policy that the candidate sets.

    :param windows: whether the log has allows of a summary.
    """
    for policy, measured in policies().items():
        if candidate.sets(policy):
            yield policy, *_of(policy, measured.family, windows=windows)
    for name in candidate.left_out:
        yield name, NOT_REPLAYED, _OF_STATE if name in STATES else _OVER_TOPICS


def _of(policy: str, family: Family, *, windows: bool) -> tuple[str, str]:
    if policy == "connection_rate_limit":
        if windows:
            return (
                BOUNDED,
                "allows of a summary are spread over their 100 ms; the bounds are none and all of them",
            )
        return (
            EXACT,
            "broker by broker; held ones retry when told to, for max_hold at most",
        )
    if family is Family.UNACKED:
        return IN_PART, "as far as the log has acknowledgements; a summary has none"
    if family is Family.RATE and not windows:
        return EXACT, f"{_RATES}; clients are assumed to ask at the recorded times"
    if family is Family.RATE and "subscription" in policy:
        return IN_PART, "allows of a summary tell no subscription: only rows of single operations are asked"
    if family is Family.RATE:
        return BOUNDED, _RATES_OF_WINDOWS
    return _FIXED[family]
