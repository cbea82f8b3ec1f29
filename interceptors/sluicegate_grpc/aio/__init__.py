"""Interceptors for grpc.aio."""

from sluicegate_grpc.aio.client import policy_client_interceptors
from sluicegate_grpc.aio.server import PolicyServerInterceptor

__all__ = ["PolicyServerInterceptor", "policy_client_interceptors"]
