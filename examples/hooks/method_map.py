"""Policies for a broker of your own that speaks gRPC: which method publishes, and where its words stand."""

from sluicegate.api import Method, MethodMap, Role, hookimpl


@hookimpl
def sluicegate_method_map():
    send = Method(Role.PUBLISH, topic=(1,), payload=(2,))
    return MethodMap("mailroom", {"/mailroom.Mail/Send": send})
