"""The entry under `brokers:` of a gRPC broker that only its method map describes."""

import re
from typing import Any, Literal

from pydantic import Field, create_model, field_validator

from sluicegate.config.units import refuse
from sluicegate.model import MethodMap, Role
from sluicegate_grpc.proxy.config import GrpcConfig


class MapEntry(GrpcConfig):
    """What such an entry may say besides `system`."""

    principals: Literal["anonymous", "bearer"] = "anonymous"
    """Whose a call is. anonymous: all clients are ANONYMOUS. bearer: the subject (`sub`) of the JSON web
    token in `authorization`; only for a broker that refuses calls whose token is invalid."""


def entry_model(methods: MethodMap) -> type[MapEntry]:
    """The model for the system of a map; an entry is refused if the gateway cannot enforce the map.

    :param methods: which method is which operation.
    """

    def check_map(value: str) -> str:
        if mistake := mistake_in(methods):
            raise refuse(
                f"cannot serve system {value!r}: {mistake}",
                "correct the map, or the plugin that it comes from",
            )
        return value

    make: Any = create_model  # its overloads cannot know a class that is made at run time
    system: Any = Literal[methods.system]
    made: type[MapEntry] = make(
        "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", methods.system)) + "Entry",
        __base__=MapEntry,
        __doc__=f"One broker of system {methods.system}.",
        __validators__={"check_map": field_validator("system")(check_map)},
        system=(system, Field(description="Kind of broker.")),
    )
    return made


def mistake_in(methods: MethodMap) -> str:
    """Why a gateway cannot stand in front of a broker by its map alone; empty if it can."""
    from sluicegate_grpc.checking import MethodMapError, check  # needs the extra

    try:
        check(methods)
    except MethodMapError as error:
        return str(error)
    for name, method in methods.methods.items():
        if method.role is Role.LOOKUP:
            return (
                f"method map of {methods.system!r}: {name}: role LOOKUP leads clients to other brokers, past "
                "the gateway; write a driver that rewrites the answer, or PASS if it names no broker"
            )
    return ""
