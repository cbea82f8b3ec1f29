"""How long tests on real brokers wait for what must happen: enough for a machine that is slow and busy."""

import time
from collections.abc import Callable

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.2
"""Looking costs time, too: what has not happened for long is looked for less often."""
PATIENCE_S = 600
"""Ends what hangs. A wait that is over sooner costs no more for it."""


def wait_until(
    holds: Callable[[], object],
    what: str,
    timeout_s: float = PATIENCE_S,
    tell: Callable[[], str] = lambda: "",
) -> None:
    """Return once something holds.

    :param what: what that is, for the error.
    :param tell: gives more text for the error.
    :raises TimeoutError: if it does not hold in time.
    """
    deadline, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}\n{tell()}".rstrip())
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)
