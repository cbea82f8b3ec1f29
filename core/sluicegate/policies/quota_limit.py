"""One kind of quota on one topic, as checks."""

from collections.abc import Callable, Sequence
from typing import Final

from sluicegate.engine.check import Check, Stage
from sluicegate.model import ENFORCE, Action, Decision, EffectivePolicies, Mode, Operation, OperationKind
from sluicegate.policies.shares import Share
from sluicegate.policies.stopping import asking, limited

TOGETHER = ("publish_quota", "publish_quota_bytes")
"""Quotas of all principals together."""
_VERBS: Final = {OperationKind.PUBLISH: "Publish", OperationKind.DISPATCH: "Consume"}


class QuotaLimit:
    """One kind of quota on one topic: checks first, and charges once all checks have allowed the operation.

    Publishes wait in the order in which they came. Deliveries wait for their rate alone: which one is next is
    up to the broker and its consumers.

    :param names: its policies, for messages and for bytes.
    :param policies: the topic's policies.
    :param share_of: returns the bucket to charge an operation to; None if it has no quota.
    :param owner_of: names whose quota it is, for texts.
    :param kind: PUBLISH or DISPATCH.
    :param mask: which of its policies have this mode.
    :param mode: to whom it applies.
    """

    __slots__ = (
        "_action",
        "_is_for_all",
        "_is_queued",
        "_kind",
        "_mode",
        "_name",
        "_names",
        "_policies",
        "owner_of",
        "share_of",
    )

    def __init__(
        self,
        names: tuple[str, str],
        policies: EffectivePolicies,
        share_of: Callable[[Operation, int], Share | None],
        owner_of: Callable[[Operation], str],
        *,
        kind: OperationKind = OperationKind.PUBLISH,
        mask: Sequence[bool] = (True, True),
        mode: Mode = ENFORCE,
    ) -> None:
        self._names = names
        self._name = names[0] if mask[0] and (policies.number(names[0]) or not mask[1]) else names[1]
        self._policies = policies
        self.share_of = share_of
        self.owner_of = owner_of
        self._kind = kind
        self._mode = mode
        self._is_for_all = mode.enforces
        self._action = Action.REJECT if policies.on_limit(names) == "reject" else Action.DELAY
        self._is_queued = kind is OperationKind.PUBLISH and self._action is not Action.REJECT

    def checks(self) -> list[Check]:
        """The check and the charge."""
        return [
            Check(self._name, (self._kind,), self._check, Stage.RATE),
            Check(self._name, (self._kind,), self._charge, Stage.ACCOUNT),
        ]

    def _check(self, op: Operation, now_ns: int) -> Decision | None:
        share = self.share_of(op, now_ns)
        if share is None:
            return None
        queue = share.queue
        if self._is_queued and self._applies_to(op):
            wait = queue.ready(op, now_ns)
        else:
            wait = queue.wait_outside(op, now_ns)
        if wait == 0:
            return None
        if queue.bucket.awaits_grant:
            return asking(self._name, op, wait, self._policies.level(self._name))
        short = queue.bucket.shortage(op.messages, op.bytes, now_ns)
        name = self._names[short.by_bytes]
        text = (
            f"{_VERBS[self._kind]} quota exceeded by {self.owner_of(op)} on topic {op.topic}. {short} "
            f"Slow down or increase {name} policy."
        )
        return limited(self._policies, name, text, short.current, short.limit, wait, self._action)

    def _charge(self, op: Operation, now_ns: int) -> None:
        share = self.share_of(op, now_ns)
        if share is None:
            return
        if self._applies_to(op):
            share.queue.bucket.charge(op.messages, op.bytes, now_ns)
        else:
            share.queue.take_outside(op, now_ns)

    def _applies_to(self, op: Operation) -> bool:
        return self._is_for_all or self._mode.applies_to(self._name, op)


def all_principals(op: Operation) -> str:
    """Whose a quota of all principals together is."""
    return "all principals"


def its_principal(op: Operation) -> str:
    """Whose a quota of each principal is."""
    return f"principal {op.principal}"
