"""The client's exceptions for refusals."""

from danube import UnrecoverableError

from sluicegate.client.refused import RefusedError


class PolicyError(UnrecoverableError):  # type: ignore[misc]  # danube-client has no types
    """The policies refuse an operation; another try would be refused as well, but for a rate."""


def error(refused: RefusedError) -> PolicyError:
    """The exception of a refusal."""
    return PolicyError(str(refused))
