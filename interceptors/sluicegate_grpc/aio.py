"""Interceptors for grpc.aio, under the public name that docs/api.md calls stable."""

from sluicegate_grpc.interceptors.aio import PolicyServerInterceptor, policy_client_interceptors

__all__ = ["PolicyServerInterceptor", "policy_client_interceptors"]
