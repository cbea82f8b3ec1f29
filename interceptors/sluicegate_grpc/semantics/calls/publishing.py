"""Publishes of unknown producers: their identity by the message's claim, and the errors.

A producer may have attached before this process started, so its claim counts until the broker responds.
"""

from collections.abc import Iterator

from sluicegate.model import Action, Decision, Method, Outcome, Reason
from sluicegate_grpc.semantics.calls.attach_call import Attaching, LostPlace
from sluicegate_grpc.semantics.calls.place import Caller, Id, Key, Place
from sluicegate_grpc.semantics.fields import Values

UNNAMED = LostPlace(
    Action.REJECT, (Reason("", Outcome.PRECONDITION, "The producer's name was not looked for."),)
)
"""Ask again with `Values.name`: the producer's id is not known, but its message may tell the name."""


UNREAD = LostPlace(Action.REJECT, (Reason("", Outcome.PRECONDITION, "The message was not read."),))
"""Ask again with what reads the messages: policies of the topic want to see them."""


class Unconfirmed(dict[Id, Attaching]):
    """Producers that count by an unconfirmed claim, by the ids that they claim.

    Each is an attachment under way, which the broker's response ends: `Attachments.claim_resolved`.
    """

    def of(self, place: Place) -> Iterator[tuple[Id, Attaching]]:
        """The callers that claim to be the producer of a place."""
        if self:
            for broker_id in tuple(place.ids):
                attaching = self.get(broker_id)
                if attaching is not None:
                    yield broker_id, attaching


def key_of(method: Method, values: Values, caller: Caller, *, has_ids: bool) -> Key | None:
    """The counted identity of an unknown producer.

    :param has_ids: whether producers are given ids when they attach.
    :return: None if it has none, or if its name has to be read first.
    """
    if not (method.topic and values.topic):
        return None
    if method.by_connection:
        return values.topic, "", f"connection {caller.client}"
    if not values.producer or (method.name and values.name is None):
        return None
    return values.topic, "", values.name or (f"id {values.producer}" if has_ids else str(values.producer))


def unknown_id(what: str, broker_id: Id) -> LostPlace:
    """The error for a call of an unknown producer or consumer.

    :param what: `producer` or `consumer`.
    :param broker_id: the id that the call gives.
    """
    text = f"The {what} with id {broker_id} does not exist. Create it again."
    return LostPlace(Action.REJECT, (Reason("", Outcome.PRECONDITION, text),))


def of_another_topic(values: Values) -> LostPlace:
    """The error for a message that names another topic than its producer's."""
    text = f"The producer with id {values.producer} is not one of topic {values.topic}. Create it there."
    return LostPlace(Action.REJECT, (Reason("", Outcome.PRECONDITION, text),))


def of_no_topic() -> Decision:
    """The error for a message without a topic."""
    return Decision(Action.REJECT, (Reason("", Outcome.INVALID, "The message names no topic."),))
