"""What a Danube topic's name says."""

import re

from sluicegate.model import TopicName

_TOPIC = re.compile(r"/(?P<namespace>[^/]+)/[^/]+")
_PARTITION = re.compile(r"(?P<whole>/[^/]+/[^/]+)-part-\d+")


def topic_name(topic: str) -> TopicName:
    """Read a topic's name, `/namespace/topic`.

    Policies of a partitioned topic hold for each of its partitions, which are topics named
    `/namespace/topic-part-0` and so on. What is no topic name has no namespace; the broker refuses it.
    """
    read = _TOPIC.fullmatch(topic)
    if read is None:
        return TopicName(topic, "")
    partition = _PARTITION.fullmatch(topic)
    return TopicName(topic, read["namespace"], (partition["whole"],) if partition is not None else ())
