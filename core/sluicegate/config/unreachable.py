"""Finds policies that can never apply, because no broker can have a topic or namespace of that name."""

from collections.abc import Iterator, Sequence

from sluicegate.config.errors import Finding
from sluicegate.config.models import BrokerConfig
from sluicegate.config.tree import Node
from sluicegate.model import Level

_SECTIONS = {"namespaces": Level.NAMESPACE, "topics": Level.TOPIC}


def impossible_names(root: Node, brokers: Sequence[BrokerConfig]) -> Iterator[Finding]:
    """Find names and patterns that are impossible on every broker of the file.

    :param root: the whole file.
    :param brokers: all entries of the file.
    """
    for section, level in _SECTIONS.items():
        for index, entry in enumerate(root.listed("policies", section)):
            name = entry.child("name")
            if name is None or not isinstance(name.scalar, str) or not name.scalar:
                continue
            rules = [(broker.system, broker.rule_of_names(level, name.scalar)) for broker in brokers]
            if rules and all(rule for _, rule in rules):
                remedy = "; ".join(f"on {system} {rule}" for system, rule in dict.fromkeys(rules))
                message = f"no broker of this file can have a {level.label} {name.scalar!r}"
                yield name.place.error(("policies", section, index, "name"), message, remedy)
