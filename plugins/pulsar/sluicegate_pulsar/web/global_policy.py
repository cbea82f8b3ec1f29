"""Global topic policies (`?isGlobal=true`), which brokers keep beside a topic's local ones and replicate.

They are the broker's own: the gateway keeps one fixed delay for a topic, which is local.
"""

import json
from urllib.parse import parse_qsl

from sluicegate.model import Level
from sluicegate_pulsar.web import document
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.passing import Asked
from sluicegate_pulsar.web.routes import Delayed
from sluicegate_pulsar.web.topics import too_short

_PARAMETER = "isGlobal"


def is_global(request: Asked, target: Delayed) -> bool:
    """Whether a request is about the global policy of a topic; namespaces have one policy only.

    :raises WebError: if it says so more than once, as brokers and gateways could read that differently.
    """
    values = [value for name, value in parse_qsl(request.query, keep_blank_values=True) if name == _PARAMETER]
    if len(values) > 1:
        raise WebError(400, f"{_PARAMETER} is given more than once")
    return target.level is Level.TOPIC and values != [] and values[0].lower() == "true"


def given(body: bytes, target: Delayed, fixed_ms: int) -> bytes:
    """What the broker is given of a document that sets the global policy.

    :param fixed_ms: the fixed delay that is applied to the topic; 0 for none.
    :raises WebError: if it sets what only a local policy can, or what would refuse all messages.
    """
    wanted = document.parse(body)
    if wanted is None:
        return body
    if wanted.fixed_ms:
        raise WebError(
            412,
            "fixedDeliveryDelayInMillis cannot be set with isGlobal=true: the gateway keeps one fixed delay "
            "for each topic; set it without isGlobal",
        )
    if 0 < wanted.max_ms < fixed_ms:
        raise too_short(target.name, wanted.max_ms, fixed_ms)
    return json.dumps(dict(wanted.native)).encode()
