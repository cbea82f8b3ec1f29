"""Publishes whose producer is not known: who that is by the message's own word, and what is answered.

A producer may have attached before this gate was started, so its word counts until the broker answers.
"""

from collections.abc import Iterator

from sluicegate.model import Action, Decision, Method, Outcome, Reason
from sluicegate_grpc.semantics.calls.attach_call import Attaching, LostPlace
from sluicegate_grpc.semantics.calls.attachments import Caller, Id, Key, Place
from sluicegate_grpc.semantics.fields import Values

UNNAMED = LostPlace(
    Action.REJECT, (Reason("", Outcome.PRECONDITION, "The producer's name was not looked for."),)
)
"""Ask again with `Values.name`: the producer's id is not known, but its message may tell the name."""


class Unproven(dict[Id, Attaching]):
    """Producers that count by their own word, by the ids that they say they were given.

    Each is an attachment under way. The broker's answer to the message ends it: see `Calls.proved`.
    """

    def of(self, place: Place) -> Iterator[tuple[Id, Attaching]]:
        """Those who say that they are the producer of a place."""
        if self:
            for called in tuple(place.ids):
                attaching = self.get(called)
                if attaching is not None:
                    yield called, attaching


def key_of(method: Method, values: Values, caller: Caller, *, has_ids: bool) -> Key | None:
    """By what a producer counts that is not known.

    :param has_ids: whether producers are given ids when they attach.
    :return: None if it cannot be counted, or not before its name was looked for.
    """
    if not (method.topic and values.topic):
        return None
    if method.by_connection:
        return values.topic, "", f"connection {caller.client}"
    if not values.producer or (method.name and values.name is None):
        return None
    return values.topic, "", values.name or (f"id {values.producer}" if has_ids else str(values.producer))


def unknown_id(what: str, called: Id) -> LostPlace:
    """The answer to a call of a producer or consumer that is not known.

    :param what: `producer` or `consumer`.
    :param called: the id that the call gives.
    """
    text = f"The {what} with id {called} does not exist. Create it again."
    return LostPlace(Action.REJECT, (Reason("", Outcome.PRECONDITION, text),))


def of_another_topic(values: Values) -> LostPlace:
    """The answer to a message that names another topic than its producer's."""
    text = f"The producer with id {values.producer} is not one of topic {values.topic}. Create it there."
    return LostPlace(Action.REJECT, (Reason("", Outcome.PRECONDITION, text),))


def of_no_topic() -> Decision:
    """The answer to a message that names no topic, where nothing else tells it."""
    return Decision(Action.REJECT, (Reason("", Outcome.INVALID, "The message names no topic."),))
