"""The wire proxy for gRPC: HTTP/2 frames pass unchanged, and policies decide on the messages in them.

`GrpcSession` is one client connection and its connection to the broker, without their sockets. It knows no
broker's protocol but what a `MethodMap` says, and what the front puts into `Shared`.
"""

from sluicegate_grpc.proxy.splice.connection_limits import Limits
from sluicegate_grpc.proxy.splice.grpc_session import GrpcSession
from sluicegate_grpc.proxy.splice.shared import Shared

__all__ = ["GrpcSession", "Limits", "Shared"]
