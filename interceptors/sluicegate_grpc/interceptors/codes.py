"""gRPC status codes that all interceptors use."""

from typing import Final

import grpc

CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
"""By their numbers."""
