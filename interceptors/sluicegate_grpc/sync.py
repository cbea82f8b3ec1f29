"""Interceptors for servers and channels with threads, under the public name that docs/api.md calls stable."""

from sluicegate_grpc.interceptors.sync import PolicyClientInterceptor, PolicyServerInterceptor

__all__ = ["PolicyClientInterceptor", "PolicyServerInterceptor"]
