"""Factor `freeze`: nothing is published while the file `var/freeze` exists."""

from pathlib import Path

from sluicegate.api import Factor, Task, hookimpl

FILE = Path("var/freeze")
freeze = Factor("freeze", "Wait until the freeze is over.")


def is_frozen():
    return FILE.exists()


@hookimpl
def sluicegate_quota_factors(context):
    return [freeze]


@hookimpl
def sluicegate_tasks(context):
    async def look():
        if is_frozen():
            context.apply(lambda: freeze.set(0.0, f"{FILE} exists"))
        else:
            context.apply(lambda: freeze.set(1.0, ""))

    return [Task("freeze", lambda: 1_000, look)]
