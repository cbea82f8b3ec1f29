"""One call that attaches a producer or a consumer, from its decision to the broker's response."""

from dataclasses import dataclass, replace

from sluicegate.model import Action, Decision, Operation, Outcome, Reason
from sluicegate.sessions.admission import Admission
from sluicegate_grpc.semantics.calls.place import Caller, Place

_FULL = "max_attachments"


@dataclass(frozen=True, slots=True)
class LostPlace(Decision):
    """A refusal for a lost attachment: NOT_FOUND, upon which clients attach again."""


def lost_place(refusal: Decision) -> LostPlace:
    """The same refusal, in the form for a client that claims to be attached."""
    return LostPlace(
        Action.REJECT,
        refusal.reasons,
        factor=refusal.factor,
        policy_version=refusal.policy_version,
        id=refusal.id,
    )


def refused(delay: Decision) -> Decision:
    """A refusal in place of a delay, where a call cannot wait."""
    return replace(delay, action=Action.REJECT, delay_ns=0)


def no_room(topic: str, limit: int) -> Decision:
    """The refusal of a client beyond the bound on attachments.

    :param limit: how many producers and consumers it keeps.
    """
    text = (
        f"Attachment limit reached for topic {topic}. Current: {limit}, Limit: {limit}. "
        "Wait for producers and consumers to disconnect."
    )
    return Decision(Action.REJECT, (Reason(_FULL, Outcome.LIMIT_REACHED, text, limit, limit),))


class Attaching(Admission):
    """State of one request to attach a producer or a consumer, until the broker responds.

    `Attachments` has the methods: `admit` waits for its decision. Then the response is reported with
    `attached` or `failed`, which no refusal needs.

    :param place: what is to be attached; None if there is no room for one more.
    :param caller: attaches it.
    :param attach: adds the producer or consumer.
    :param create: creates the subscription if there is none; None for a producer.
    :param known: True if it claims to be attached already.
    :param reliable: whether the topic's messages must all arrive, if the call says so.
    """

    __slots__ = ("caller", "ended", "known", "place", "reliable", "taken")

    def __init__(
        self,
        place: Place | None,
        caller: Caller,
        attach: Operation,
        create: Operation | None,
        *,
        known: bool = False,
        reliable: bool | None = None,
    ) -> None:
        super().__init__(attach, create)
        self.place = place
        self.caller = caller
        self.known = known
        self.reliable = reliable
        self.taken = False
        """True once the place was taken."""
        self.ended = False
        """True once nothing is left to give back."""

    @property
    def topic(self) -> str:
        """The topic's full name."""
        return self.attach.topic

    def take(self, place: Place, now_ns: int) -> None:
        """The gate has admitted it: its place counts."""
        self.taken = True
        place.refs.setdefault(self.caller.client, self.attach)
        place.seen_ns = now_ns

    def end(self) -> None:
        """The attempt is over."""
        self.ended = True
        if self.place is not None:
            self.place.ended(self.caller)
