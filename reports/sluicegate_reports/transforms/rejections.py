"""What gateways' logs tell of refused messages, to compare it with what producers were told."""

from collections.abc import Iterator, Sequence
from typing import Any

from sluicegate_reports.transforms.ahead import Ahead
from sluicegate_reports.transforms.attribution import SLACK_US, clients_us
from sluicegate_reports.transforms.lanes import Try, tried_at
from sluicegate_reports.transforms.packed import Part, Topic


def rejections(topic: Topic, tried: Sequence[Try], clocks: Ahead) -> Iterator[Part]:
    """The messages that a trial's policy refused, as the log of its topic tells.

    :param tried: of sizes or of delays that producers ask for.
    :param clocks: by how much gateways' clocks are ahead.
    """
    own = tried_at(topic.topic_key, tried)
    for piece in topic.decisions("time_us", "operation", "policy", "action", "messages") if own else ():
        at_us, action = clients_us(piece, topic, clocks), piece.text("action")
        published = piece.text("operation").among("publish") & ~action.among("delay", None)
        for each in own:
            here = published & (at_us >= each.begin_us - SLACK_US) & (at_us <= each.end_us + SLACK_US)
            if here.any():
                refused = here & action.among("reject", "drop") & piece.text("policy").among(each.policy)
                yield (*topic.arm, each.trial), int(piece.number("messages")[refused].sum())


def rejections_together(key: tuple[str, str, int], parts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Messages that the log of a trial says were refused.

    :return: `trial`, `log_refused`; no row of a trial whose topic the log tells nothing of.
    """
    yield {"trial": key[2], "log_refused": sum(parts)}
