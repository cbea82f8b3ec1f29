"""Names of Danube's topics."""

import re

from sluicegate.model import TopicName

_TOPIC = re.compile(r"/(?P<namespace>[^/]+)/[^/]+")
_PARTITION = re.compile(r"(?P<whole>/[^/]+/[^/]+)-part-\d+")


def topic_name(topic: str) -> TopicName:
    """Read a topic's name, `/namespace/topic`.

    Policies of a partitioned topic hold for each of its partitions, which are topics named
    `/namespace/topic-part-0` and so on. An invalid name has no namespace; the broker refuses it.
    """
    read = _TOPIC.fullmatch(topic)
    if read is None:
        return TopicName(topic, "")
    partition = _PARTITION.fullmatch(topic)
    return TopicName(topic, read["namespace"], (partition["whole"],) if partition is not None else ())


def could_be_topic(name: str) -> bool:
    """Whether a topic can have a name that a policy gives; `*` stands for any characters.

    :return: True also where it is not certain.
    """
    if "*" not in name:
        return _TOPIC.fullmatch(name) is not None
    return name[0] in "/*" and name[-1] != "/" and "//" not in name and name.count("/") <= 2
