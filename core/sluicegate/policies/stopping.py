"""Decisions of policies that stop an operation, with their one reason."""

from sluicegate.model import Action, Decision, EffectivePolicies, Operation, Outcome, Reason


def rejected(
    policies: EffectivePolicies,
    policy: str,
    text: str,
    current: float = 0,
    limit: float = 0,
    outcome: Outcome = Outcome.INVALID,
) -> Decision:
    """Refuse an operation; by default because it can never pass."""
    reason = Reason(policy, outcome, text, current, limit, policies.level(policy))
    return Decision(Action.REJECT, (reason,))


def limited(
    policies: EffectivePolicies,
    policy: str,
    text: str,
    current: float,
    limit: float,
    wait_ns: int,
    action: Action = Action.DELAY,
) -> Decision:
    """Hold an operation, or refuse it with the same advice, because a limit is reached.

    :param wait_ns: when it may be tried again.
    """
    reason = Reason(policy, Outcome.LIMIT_REACHED, text, current, limit, policies.level(policy))
    return Decision(action, (reason,), delay_ns=wait_ns)


def asking(policy: str, op: Operation, wait_ns: int, level: str = "") -> Decision:
    """Hold an operation while the store of a limit that gateways share is being asked for more of it.

    :param wait_ns: when it may be tried again.
    """
    text = (
        f"Asking for a part of the shared limit {policy} for topic {op.topic}. It is tried again by itself."
    )
    return Decision(
        Action.DELAY, (Reason(policy, Outcome.PRECONDITION, text, level=level),), delay_ns=wait_ns
    )
