"""Batch jobs share 2 MiB/s: all principals whose name begins with `batch-`."""

from sluicegate.api import Quota, hookimpl


@hookimpl
def sluicegate_quota(principal):
    if principal.removeprefix("User:").startswith("batch-"):
        return Quota(bytes_per_s=2 * 2**20, share="batch")
    return None
