"""Which of a broker's workers serves a client."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """The front needs more of what a client sends first; see `BaseFront.affinity`."""

    size: int
    """Bytes from the connection's beginning, more than the front was given."""
