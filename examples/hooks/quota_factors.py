"""Factor `freeze`: nothing is published while the file `var/freeze` exists."""

from pathlib import Path

from sluicegate import hookimpl
from sluicegate.engine.factors import Factor
from sluicegate.engine.task import Task

FILE = Path("var/freeze")
freeze = Factor("freeze", "Wait until the freeze is over.")


@hookimpl
def sluicegate_quota_factors(context):
    return [freeze]


@hookimpl
def sluicegate_tasks(context):
    async def look():
        value, why = (0.0, f"{FILE} exists") if FILE.exists() else (1.0, "")
        context.apply(lambda: freeze.set(value, why))

    return [Task("freeze", lambda: 1_000, look)]
