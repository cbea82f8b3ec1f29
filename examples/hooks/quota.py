"""What runs at night shares 2 MiB/s: all principals whose name begins with `batch-`."""

from sluicegate import hookimpl
from sluicegate.engine.quota import Quota


@hookimpl
def sluicegate_quota(principal):
    if principal.removeprefix("User:").startswith("batch-"):
        return Quota(bytes_per_s=2 * 2**20, share="batch")
    return None
