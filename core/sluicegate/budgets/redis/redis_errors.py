"""Explains errors of a Redis to operators, with the remedy."""

from typing import Final

from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
)

_TLS: Final = (
    "if the server wants TLS, write rediss://; if it wants a client's certificate, too, add "
    "?ssl_certfile=FILE&ssl_keyfile=FILE"
)
_ADDRESS: Final = (
    "look at host and port in the URL of `budgets`, and whether the server speaks TLS, as rediss:// says"
)
_OF_SCRIPTS: Final = "user executing the script can't"
_MEANINGS: Final = {
    AuthenticationError: (
        "the server asks for a login, or refuses this one: "
        "write user and password into the URL of `budgets`, as redis://USER:PASSWORD@HOST:6379"
    ),
    NoPermissionError: (
        "the server lets this user do too little: give it the commands of the groups @scripting, @read, "
        "@write, @connection and @fast, and the keys sluicegate:*"
    ),
    ReadOnlyError: (
        "the server is a read-only replica: name the primary, or its Sentinels by redis+sentinel://"
    ),
    OutOfMemoryError: (
        "the server's memory is full: raise its maxmemory, or give budgets a server of their own"
    ),
}
_REMEDIES: Final = {
    "CERTIFICATE_VERIFY_FAILED": (
        "name the authority of the server's certificate by ?ssl_ca_certs=FILE in the URL of `budgets`, "
        "and the server as its certificate does"
    ),
    "No such file": "look at the files in the URL of `budgets`",
    "reset by peer": _TLS,
    "closed by server": _TLS,
    "Timeout connecting": _ADDRESS,
}
"""What to do about errors of connections, by a part of their texts."""

ERRORS: Final = (RedisError, RedisClusterException, OSError)
"""What calls of redis-py raise if a server is away, refuses, or is none."""


def late(timeout_s: float, has_answered: bool) -> str:
    """The error of a call without an answer.

    :param timeout_s: how long it was awaited, in seconds.
    :param has_answered: whether the server has ever answered.
    """
    text = f"no answer within {timeout_s * 1000:.0f} ms"
    return text if has_answered else f"{text}; {_ADDRESS}"


def explained(error: Exception, fleet: str) -> str:
    """An error in words, with the remedy where there is one.

    :param fleet: name of the fleet whose budgets are asked.
    """
    text = str(error)
    _, is_other, version = text.partition("OTHERVERSION ")
    if is_other:
        return (
            f"the budgets of fleet {fleet!r} are of another version ({version}; this gateway knows 1): "
            "give this fleet another `budgets.name`, or run one version in all gateways"
        )
    said = f"{type(error).__name__}: {text.partition(' script:')[0]}"
    if _OF_SCRIPTS in text:
        return f"{_MEANINGS[NoPermissionError]} ({said})"
    for kind, meaning in _MEANINGS.items():
        if isinstance(error, kind):
            return f"{meaning} ({said})"
    remedy = next((remedy for part, remedy in _REMEDIES.items() if part in text), "")
    return f"{said}; {remedy}" if remedy else said
