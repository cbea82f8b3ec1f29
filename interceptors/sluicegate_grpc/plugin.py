"""gRPC brokers of which only a method map is known: loaded by the entry point group `sluicegate.plugins`."""

from sluicegate import hookimpl
from sluicegate.broker import BaseDriver
from sluicegate.model import MethodMap
from sluicegate_grpc.driver import GrpcDriver


@hookimpl(trylast=True)
def sluicegate_grpc_driver(methods: MethodMap) -> BaseDriver:
    """Drive the system of any method map."""
    return GrpcDriver(methods)
