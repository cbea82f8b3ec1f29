"""Controllers cannot be reached through the gateway, and their addresses stay behind it."""

from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import u16
from tests.kafka.codec.entities import decode_response
from tests.kafka.session.wire import Bench, Wire, request, response

# kio's types are narrower than what it takes.
quorum_request: Any = import_module("kio.schema.describe_quorum.v2.request")
quorum_response: Any = import_module("kio.schema.describe_quorum.v2.response")
DESCRIBE_QUORUM = 55


def test_the_response_names_controllers_without_addresses() -> None:
    wire = Wire(Bench())
    asked = request(quorum_request.DescribeQuorumRequest(topics=()))
    wire.client_sends(asked)
    assert wire.forwarded() == [asked[4:]]
    listener = quorum_response.Listener(name="CONTROLLER", host="10.1.2.3", port=u16(9093))
    answer = quorum_response.DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message=None,
        topics=(),
        nodes=tuple(quorum_response.Node(node_id=node, listeners=(listener,)) for node in (1, 2)),
    )
    wire.broker_sends(response(answer))
    (seen,) = wire.answered()
    nodes = decode_response(seen, DESCRIBE_QUORUM, 2)[1].nodes
    assert [(node.node_id, node.listeners) for node in nodes] == [(1, ()), (2, ())]
