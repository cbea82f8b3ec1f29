"""Interceptors for gRPC's servers and channels with threads."""

from sluicegate_grpc.sync.client import PolicyClientInterceptor
from sluicegate_grpc.sync.server import PolicyServerInterceptor

__all__ = ["PolicyClientInterceptor", "PolicyServerInterceptor"]
