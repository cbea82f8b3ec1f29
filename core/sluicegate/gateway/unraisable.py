"""Exceptions that Python has no caller to give to: a line of the log instead of a traceback.

Clients can cause some. A server name that is no ASCII, where certificates are chosen by name, is one inside
OpenSSL's callback: its handshake fails, and Python would write five lines to standard error each time.
"""

import logging
import sys
from typing import Any

log = logging.getLogger("python")
"""Not one of the gateway's own loggers, so that equal lines are thinned out like those of a library."""


def tell_in_the_log() -> None:
    """Have them told there from now on, in this process."""
    sys.unraisablehook = _tell


def _tell(found: Any) -> None:
    """Log one. Objects at fault are not kept, as `sys.unraisablehook` demands.

    :param found: a `sys.UnraisableHookArgs`.
    """
    log.warning("exception without a caller: %s: %s", found.exc_type.__name__, found.exc_value)
