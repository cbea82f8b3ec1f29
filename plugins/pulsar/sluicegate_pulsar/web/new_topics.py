"""Topics that administrators create: refused where policies forbid them, otherwise passed to the broker.

Only the broker authenticates the caller. So nobody is exempt here, and a policy for some principals does not
apply. The gateway's log has the refusals.
"""

import json
from dataclasses import replace
from urllib.parse import unquote_plus

from sluicegate.engine import texts
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import EffectivePolicies, Level, OperationKind
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.passing import Asked
from sluicegate_pulsar.web.routes import Creation

_ALLOWED = "allow_topic_creation"
_PARTITIONS = "max_partitions"
_CREATES = "checkAllowAutoCreation"
"""Query parameter of a request for a topic's partitions: brokers may create the topic if it is missing."""


def refuse_creation(creation: Creation, body: bytes, resolver: Resolver) -> None:
    """Refuse a request that creates a topic, or gives it partitions, against a policy.

    :param body: of the request.
    :param resolver: the policies now in force.
    :raises WebError: if it is refused.
    """
    policies = resolver.resolve(creation.topic, Level.TOPIC)
    topic = creation.topic.full
    if creation.kind is OperationKind.CREATE_TOPIC and _forbids(policies):
        raise WebError(403, texts.creation(topic))
    most = policies.number(_PARTITIONS)
    if most and creation.has_partitions and policies.enforces(_PARTITIONS):
        partitions = _partitions(body)
        if partitions > most:
            raise WebError(403, texts.partitions(topic, partitions, most))


def creating_nothing(request: Asked, creation: Creation, resolver: Resolver) -> Asked:
    """A request for a topic's partitions that has brokers create only what policies allow."""
    if not _forbids(resolver.resolve(creation.topic, Level.TOPIC)):
        return request
    parts = request.query.split("&")
    kept = [part for part in parts if unquote_plus(part.partition("=")[0]) != _CREATES]
    return replace(request, query="&".join(kept))


def _forbids(policies: EffectivePolicies) -> bool:
    return policies.values.get(_ALLOWED) is False and policies.enforces(_ALLOWED)


def _partitions(body: bytes) -> int:
    """How many partitions a body asks for: a number, or a document with one.

    :raises WebError: if it is neither.
    """
    try:
        asked = json.loads(body)
        return int(asked["partitions"] if isinstance(asked, dict) else asked)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise WebError(400, "expected a number of partitions") from None
