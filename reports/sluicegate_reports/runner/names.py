"""Names of topics: in the scenario, on each system, and in the policies.

Each arm has topics of its own, so that arms never share messages or subscriptions and existing topics of a
broker stay untouched: `orders` is `orders--proxy-k3x9qa` behind the proxy of run `k3x9qa`.
Policies name them by pattern, so one text of policies holds for all arms.
"""

from sluicegate_reports.registry import kinds

SEPARATOR = "--"
"""Between a scenario's name of a topic and the arm's suffix; no name there has two dashes in a row."""


def full_name(system: str, namespace: str, name: str, suffix: str) -> str:
    """The name that a topic has on a system.

    :param system: one of `registry.kinds`.
    :param suffix: of the arm, such as `proxy-k3x9qa`.
    """
    return kinds()[system].topic.format(namespace=namespace, name=f"{name}{SEPARATOR}{suffix}")


def topic_pattern(name: str) -> str:
    """The policies' name for a topic of the scenario, on all systems and in all arms."""
    return f"*{name.removeprefix('*')}{SEPARATOR}*"


def namespace_pattern(name: str) -> str:
    """The policies' name for a namespace, on all systems: `default` is `public/default` on Pulsar."""
    return f"*{name.removeprefix('*')}"
