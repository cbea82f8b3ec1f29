"""Interceptors for grpc.aio."""

from sluicegate_grpc.interceptors.aio.client import policy_client_interceptors
from sluicegate_grpc.interceptors.aio.server import PolicyServerInterceptor

__all__ = ["PolicyServerInterceptor", "policy_client_interceptors"]
