"""Hosts: names and addresses, without a port."""

import re
from ipaddress import ip_address
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from sluicegate.config.secrets import shown_value
from sluicegate.config.units import refuse

_NAME = re.compile(r"[^\s:/*@\[\]]+")
_NUMBERS = re.compile(r"[0-9.]+")


def check_host(value: str) -> str:
    """Refuse what can be neither the name nor the address of a host; names are not looked up.

    :raises PydanticCustomError: if it is neither, such as a host with its port.
    """
    try:
        ip_address(value)
    except ValueError:
        if not _NAME.fullmatch(value) or _NUMBERS.fullmatch(value):
            remedy = "write a host's name, or an address such as 127.0.0.1 or ::1, without a port"
            raise refuse(f"{shown_value(value)} is not a host", remedy) from None
    return value


Host: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(check_host)]
"""A host's name or address: `gate.example`, `127.0.0.1`, `::1`."""
