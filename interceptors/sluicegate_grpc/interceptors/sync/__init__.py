"""Interceptors for gRPC's servers and channels with threads."""

from sluicegate_grpc.interceptors.sync.client import PolicyClientInterceptor
from sluicegate_grpc.interceptors.sync.server import PolicyServerInterceptor

__all__ = ["PolicyClientInterceptor", "PolicyServerInterceptor"]
