"""Names of topics read back, for tests."""

from sluicegate_reports.runner.names import SEPARATOR


def scenario_name(topic: str) -> str:
    """The scenario's name of a topic: `persistent://public/default/orders--proxy-k3x9qa` -> `orders`.

    A name without a suffix, which no arm made, is given back as it is.
    """
    head, separator, _ = topic.rpartition(SEPARATOR)
    return head.replace("/", ".").rpartition(".")[2] if separator else topic
