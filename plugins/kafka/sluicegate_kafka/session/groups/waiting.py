"""Requests of groups, which may have to wait in the gateway before they are forwarded."""

from collections.abc import Callable

from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action
from sluicegate_kafka.codec.frames import RequestHead
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.session.groups.attempt import Attempt
from sluicegate_kafka.session.requests.sliced import Deciding, Sliced, deciding_in_slices
from sluicegate_kafka.session.requests.suspended import Suspended
from sluicegate_kafka.session.shared.listing import ListGroups
from sluicegate_kafka.session.shared.refusals import group_code


class GroupRequest:
    """One group request, from its decision to its forwarding or refusal.

    :param attempt: what it asks for.
    :param admitted: called right before it is forwarded to the broker.
    :param refusal: makes the answer to the client, by its error code; in slices if it may be long.
    """

    __slots__ = ("_admitted", "_attempt", "_hold", "_refusal")

    def __init__(
        self,
        attempt: Attempt,
        admitted: Callable[[], None],
        refusal: Callable[[int], bytes | Slices[bytes]],
    ) -> None:
        self._attempt = attempt
        self._admitted = admitted
        self._refusal = refusal
        self._hold = Hold(attempt.shared.max_hold_ns)

    def deciding(self, turn: Sliced, frame: bytes, head: RequestHead) -> Deciding:
        """Decide the request, for the first time or again."""
        attempt = self._attempt
        turn.leave = attempt.withdraw
        found = yield from attempt.deciding(turn)
        if found is None:
            self._admitted()
            return True
        waiting = Suspended(deciding_in_slices(self.deciding), frame, head, leave=attempt.withdraw)
        if isinstance(found, ListGroups):
            waiting.question = found
            return waiting
        if wait_ns := self._hold.wait_ns(found, turn.now_ns):
            waiting.wake_ns = turn.now_ns + wait_ns
            return waiting
        if found.action is Action.DELAY:
            attempt.shared.counts[attempt.timed_out] += 1
        yield from attempt.refusing(found, turn)
        answer = self._refusal(group_code(found, attempt.connection.software))
        if not isinstance(answer, bytes):
            answer = yield from answer
        attempt.connection.outstanding.answer(answer)
        return False
