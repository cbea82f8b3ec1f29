"""Logs exceptions that cannot be raised to a caller in one line instead of a traceback.

Clients can cause some. A server name that is not ASCII raises one in OpenSSL's SNI callback: the handshake
fails, and by default Python writes five lines to standard error each time.
"""

import logging
import sys
from typing import Any

log = logging.getLogger("python")
"""Not one of the gateway's own loggers, so that repeated lines are limited like those of a library."""


def log_unraisable() -> None:
    """Log such exceptions of this process from now on."""
    sys.unraisablehook = _log


def _log(event: Any) -> None:
    """Log one exception. The hook must not keep references to its objects.

    :param event: a `sys.UnraisableHookArgs`.
    """
    log.warning("exception without a caller: %s: %s", event.exc_type.__name__, event.exc_value)
