"""Several certificates on one listener, selected by server name (SNI, RFC 6066)."""

import ssl
from collections.abc import Callable, Iterable

ChooseByName = Callable[[ssl.SSLObject | ssl.SSLSocket, str | None, ssl.SSLContext], None]


def choosing_by_name(contexts: Iterable[tuple[str, ssl.SSLContext]]) -> ChooseByName:
    """Make an SNI callback that selects a context by server name.

    An exact name takes precedence over a wildcard. A client that sends no name or an unknown one gets the
    default certificate, as with web servers; it is up to the client to accept it.

    :param contexts: each with a name in lower case; `*.example` stands for all names one label below it.
    """
    by_name = dict(contexts)

    def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        if name is None:
            return
        name = name.lower().rstrip(".")
        context = by_name.get(name) or by_name.get("*." + name.partition(".")[2])
        if context is not None:
            connection.context = context

    return choose
