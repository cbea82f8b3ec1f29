"""gRPC status codes that all interceptors use."""

from typing import Final

import grpc

CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
"""By their numbers."""
DETAILS: Final = "grpc-status-details-bin"
"""The trailer in which clients of the richer error model look for a `google.rpc.Status`."""
