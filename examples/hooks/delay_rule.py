"""Topics whose name ends in `.retry` are delivered a minute late, unless their policy says otherwise."""

from sluicegate.api import DelayRule, hookimpl


@hookimpl
def sluicegate_delay_rule(topic, policies):
    if topic.full.endswith(".retry") and not policies.number("fixed_delivery_delay"):
        return DelayRule(fixed_ms=60_000)
    return None
