"""What was on its way between a gate and its clients when a lane began, and when it ended."""

from collections.abc import Mapping, Sequence

from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.packed import Topic
from sluicegate_reports.transforms.slots import Slots


def carried(lanes: Sequence[tuple[Lane, Mapping[str, Slots]]]) -> dict[int, int]:
    """Messages that were on their way when each lane began: let pass in earlier ones and not seen there.

    :param lanes: of one topic, with their slots by source.
    :return: by number of the lane; only of lanes that begin where another one of their subscription ends.
    """
    by_subscription: dict[tuple[str, str | None], list[tuple[Lane, Mapping[str, Slots]]]] = {}
    for lane, slots in lanes:
        if LOG in slots:
            by_subscription.setdefault((lane.policy, lane.subscription), []).append((lane, slots))
    by_lane = {}
    for several in by_subscription.values():
        messages, end_us = 0, None
        for lane, slots in sorted(several, key=lambda each: each[0].begin_us):
            if end_us == lane.begin_us:
                by_lane[lane.number] = max(messages, 0)
            for source, sign in ((LOG, 1), (CLIENTS, -1)):
                if source in slots:
                    messages += sign * int(slots[source].admitted_messages.sum())
            end_us = lane.end_us
    return by_lane


def unanswered(topic: Topic, lanes: Sequence[Lane]) -> dict[int, int]:
    """Messages that were sent before their lane's end and acknowledged after it.

    :return: by number of the lane, where there are any.
    """
    published = [lane for lane in lanes if lane.operation == "publish"]
    late_in: dict[int, int] = {}
    if not published:
        return late_in
    for piece in topic.observations("time_us", "role", "event", "messages", "latency_ns"):
        acknowledged = piece.text("role").among("producer") & piece.text("event").among("acknowledged")
        acknowledged &= piece.known("latency_ns")
        told_us, messages = piece.number("time_us")[acknowledged], piece.number("messages")[acknowledged]
        sent_us = told_us - piece.number("latency_ns")[acknowledged] / 1000
        for lane in published:
            late = (sent_us < lane.end_us) & (told_us >= lane.end_us)
            if late.any():
                late_in[lane.number] = late_in.get(lane.number, 0) + int(messages[late].sum())
    return late_in
