"""Tells systemd's watchdog (`WatchdogSec=`) that the supervisor's event loop responds."""

import asyncio
import os
import socket

from sluicegate.net.listening.succession import notify


async def notify_watchdog() -> None:
    """Notify the service manager twice in each time that it grants, if it watches this service.

    `WATCHDOG_PID` is not asked: a gateway that took over has the environment of the one before, and is the
    service's main process.

    See sd_watchdog_enabled(3).
    """
    granted = os.environ.get("WATCHDOG_USEC", "")  # microseconds
    while granted.isdecimal() and int(granted):
        notify("WATCHDOG=1", socket.MSG_DONTWAIT)
        await asyncio.sleep(int(granted) / 2e6)
