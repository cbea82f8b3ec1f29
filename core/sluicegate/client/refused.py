"""A refusal in a client's own process."""

from sluicegate.decisions.ids import with_id
from sluicegate.model import Action, Decision, Outcome, Reason

__all__ = ["RefusedError", "held_too_long"]


class RefusedError(Exception):
    """The policies refuse an operation; wrappers raise their library's own exception from it.

    :param decision: why; its text ends with the decision id, which `sluicegate explain` resolves.
    """

    def __init__(self, decision: Decision, *, was_held: bool = False) -> None:
        super().__init__(with_id(decision.text, decision.id))
        self.decision = decision
        self.was_held = was_held
        """True if it might have passed, had its client waited for longer."""


def held_too_long(decision: Decision, waited_s: float) -> RefusedError:
    """The refusal of an operation that was held for as long as its client waits.

    :param decision: what held it last.
    :param waited_s: that time.
    """
    reason = decision.reasons[0]
    text = f"{reason.text} It was held for {waited_s:g} s."
    late = Reason(reason.policy, Outcome.LIMIT_REACHED, text, reason.current, reason.limit, reason.level)
    refusal = Decision(Action.REJECT, (late,), policy_version=decision.policy_version, id=decision.id)
    return RefusedError(refusal, was_held=True)
