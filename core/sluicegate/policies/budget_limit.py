"""A budget that several topics share, as checks of one kind of operation on one of them."""

from collections.abc import Callable

from sluicegate.engine.check import Check, Stage
from sluicegate.model import Action, Decision, EffectivePolicies, Operation, OperationKind
from sluicegate.policies.shares import Share
from sluicegate.policies.stopping import limited

_VERBS = {OperationKind.PUBLISH: "Publish", OperationKind.DISPATCH: "Consume"}


class BudgetLimit:
    """Checks first, and charges once all checks have allowed the operation.

    Publishes wait in the order in which they came. Deliveries wait for their rate alone: which one is next is
    up to its broker and its consumers.

    :param kind: PUBLISH or DISPATCH.
    :param names: its policies, for messages and for bytes.
    :param policies: the topic's policies.
    :param share_of: returns the bucket to charge an operation to; None if it has no budget.
    :param owner_of: names whose budget it is, for texts.
    """

    __slots__ = ("_kind", "_names", "_owner_of", "_policies", "_share_of")

    def __init__(
        self,
        kind: OperationKind,
        names: tuple[str, str],
        policies: EffectivePolicies,
        share_of: Callable[[Operation, int], Share | None],
        owner_of: Callable[[Operation], str],
    ) -> None:
        self._kind = kind
        self._names = names
        self._policies = policies
        self._share_of = share_of
        self._owner_of = owner_of

    def checks(self) -> list[Check]:
        """The check and the charge."""
        name, kinds = self._names[0], (self._kind,)
        return [
            Check(name, kinds, self._check, Stage.RATE),
            Check(name, kinds, self._charge, Stage.ACCOUNT),
        ]

    def _check(self, op: Operation, now_ns: int) -> Decision | None:
        share = self._share_of(op, now_ns)
        if share is None:
            return None
        queue = share.queue
        is_queued = self._kind is OperationKind.PUBLISH
        wait = queue.ready(op, now_ns) if is_queued else queue.wait_outside(op, now_ns)
        if wait == 0:
            return None
        short = queue.bucket.shortage(op.messages, op.bytes, now_ns)
        name = self._names[short.by_bytes]
        text = (
            f"{_VERBS[self._kind]} quota exceeded by {self._owner_of(op)} on topic {op.topic}. {short} "
            f"Slow down or increase {name} policy."
        )
        return limited(self._policies, name, text, short.current, short.limit, wait, Action.DELAY)

    def _charge(self, op: Operation, now_ns: int) -> None:
        share = self._share_of(op, now_ns)
        if share is not None:
            share.queue.bucket.charge(op.messages, op.bytes, now_ns)
