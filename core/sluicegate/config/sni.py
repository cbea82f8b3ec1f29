"""Several certificates on one listener: the client names the server that it wants (SNI, RFC 6066)."""

import ssl
from collections.abc import Callable, Iterable

ChooseByName = Callable[[ssl.SSLObject | ssl.SSLSocket, str | None, ssl.SSLContext], None]


def choosing_by_name(contexts: Iterable[tuple[str, ssl.SSLContext]]) -> ChooseByName:
    """Make the callback of a context that has others take over its handshakes by server name.

    An exact name goes before a wildcard. A client that names no server, or an unknown one, is shown the
    certificate of the context itself, as web servers do: whether that will do is for the client to say.

    :param contexts: each with a name in lower case; `*.example` stands for all names one label below it.
    """
    by_name = dict(contexts)

    def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        if name is None:
            return
        name = name.lower().rstrip(".")
        found = by_name.get(name) or by_name.get("*." + name.partition(".")[2])
        if found is not None:
            connection.context = found

    return choose
