"""The principal of a call."""

from collections.abc import Sequence

from sluicegate_grpc.proxy.bearer import bearer_principal


def principal(headers: Sequence[tuple[str, str]]) -> str | None:
    """The principal that a call's token names; a claim until the broker has accepted the token.

    Danube goes by the claim `principal_name`; tokens without it are of others, and name their subject.

    :param headers: names (lower case) and values of a call's metadata.
    :return: None if there is no token that can be read.
    """
    return bearer_principal(headers, ("principal_name", "sub"))
