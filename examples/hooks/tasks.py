"""Metric `topics_with_producers`, counted every 10 seconds."""

from sluicegate.api import Task, hookimpl


@hookimpl
def sluicegate_tasks(context):
    gauge = context.metrics.gauge("topics_with_producers", "Topics that have a producer.")

    async def count():
        states = tuple(context.states.values())
        gauge.set(sum(len(state.producers) > 0 for state in states))

    return [Task("topics_with_producers", lambda: 10_000, count)]
