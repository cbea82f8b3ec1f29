"""Policies in a client's own process: what the wrappers of all client libraries share.

Work that may have to wait is run by `aio.finish` on an event loop, and by `sync.finish` in a thread.
"""

from sluicegate.client import aio, sync
from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.receiving import Receiver
from sluicegate.client.refused import RefusedError
from sluicegate.client.sending import HeldMessage, Publisher
from sluicegate.sessions.work import Turn, Work

__all__ = [
    "HeldMessage",
    "OpenPolicies",
    "PolicedClient",
    "Policies",
    "Publisher",
    "Receiver",
    "RefusedError",
    "Turn",
    "Work",
    "aio",
    "sync",
]
