"""What clients of each protocol send first; the others get it by mistake."""

from tests.grpc.proxy.splice.oracle.raw import HELLO, headers
from tests.pulsar.session import messages

KAFKA = (bytes.fromhex("00000014 0012 0000 00000000 000a") + b"sluicegate",)
PULSAR = (messages.connect(), messages.send(1))
HTTP2 = (HELLO, headers(1))
