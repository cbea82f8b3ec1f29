"""Says in the gateway's log which Python a worker runs on."""

import platform

from sluicegate.api import hookimpl


@hookimpl
def sluicegate_startup(log):
    log(f"worker starts on Python {platform.python_version()}")
