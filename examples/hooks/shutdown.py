"""Says in the gateway's log how long a worker ran."""

import time

from sluicegate.api import hookimpl

started = time.monotonic()


@hookimpl
def sluicegate_shutdown(log):
    log(f"worker ends after {time.monotonic() - started:.0f} s")
