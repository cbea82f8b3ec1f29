"""Limits on single messages: larger ones must be refused, others must pass."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluicegate_reports.transforms.lanes import Try, tried_at
from sluicegate_reports.transforms.packed import NEVER, Flags, Key, Numbers, Part, Piece, Topic

_ANSWERS = ("failed", "acknowledged", "refused")
_COUNTS = ("above", "failed", "up_to", "refused", "otherwise", "wrongly_admitted", "wrongly_refused")
_MESSAGE = ("client", "sequence")
_OF_CONSUMERS = ("received", "acknowledged", "attached", "detached")
_HELD = ("time_us", "client", "event", "producer", "sequence", "messages", "acknowledges")


class Answers(NamedTuple):
    """Evidence of some rows about a trial."""

    counts: Counter[tuple[bool, str, str]]
    """Answers to producers, by whether the message is above the limit, event and code."""
    largest: int | None
    """That was acknowledged."""
    above: pa.Table
    """What producers saw of messages above the limit: `client`, `sequence`, `value`, `event`."""
    came: pa.Table
    """Messages that consumers got: `client` (that sent it), `sequence`."""


def messages(topic: Topic, tried: Sequence[Try], measure: str) -> Iterator[Part]:
    """The answers to producers, by what each message had and what the limit says.

    :param tried: of sizes or of delays that producers ask for.
    :param measure: column that the limit is on: `bytes` or `delay_ms`, where null is none.
    """
    own = tried_at(topic.topic_key, tried)
    columns = ("phase", "client", "role", "event", "producer", "sequence", "code", measure)
    for piece in topic.observations(*columns) if own else ():
        event, value, numbered = piece.text("event"), piece.number(measure), piece.known("sequence")
        answered = piece.text("role").among("producer") & event.among("sent", *_ANSWERS)
        came = piece.rows(event.among("received") & numbered).select(["producer", "sequence"])
        for each in own:
            rows, over = answered & piece.text("phase").among(each.phase), value > each.limit
            admitted = value[rows & event.among("acknowledged")]
            above = piece.rows(rows & over & numbered).select([*_MESSAGE, measure, "event"])
            yield (
                (*topic.arm, each.trial),
                Answers(
                    _counted(piece, rows & ~event.among("sent"), over),
                    int(admitted.max()) if len(admitted) else None,
                    above.rename_columns([*_MESSAGE, "value", "event"]),
                    came.rename_columns(_MESSAGE),
                ),
            )


def _counted(piece: Piece, rows: Flags, over: Flags) -> Counter[tuple[bool, str, str]]:
    event, code = piece.text("event"), piece.text("code")
    names = [*code.names, ""]
    shape = (2, len(event.names), len(names))
    # The code of a null is -1, which wraps to the last name, the empty one.
    kinds = np.ravel_multi_index(
        (over[rows].astype(np.int64), event.codes[rows], code.codes[rows]), shape, mode="wrap"
    )
    counts = np.bincount(kinds, minlength=math.prod(shape)).reshape(shape)
    return Counter(
        {
            (bool(is_over), event.names[answer], names[of]): int(counts[is_over, answer, of])
            for is_over, answer, of in np.argwhere(counts).tolist()
        }
    )


def messages_together(key: tuple[str, str, int], parts: Sequence[Answers]) -> Iterator[dict[str, Any]]:
    """Judge the answers of a trial.

    What is refused with another code than messages above the limit are is refused by another policy, rightly.

    :return: `trial`, `above` (answers about messages above the limit, and those that came without one),
        `failed` (messages above the limit that failed without an answer), `up_to` (answers about others),
        `refused`, `otherwise` (of them, with another code), `wrongly_admitted`, `wrongly_refused`,
        `largest_admitted`.
    """
    counts = sum((part.counts for part in parts), Counter[tuple[bool, str, str]]())
    untold = _delivered_untold(parts)
    if not counts and not untold:
        return
    codes = {code for over, event, code in counts if over and event == "refused"}
    means = Counter(above=len(untold), wrongly_admitted=len(untold))
    for (over, event, code), count in counts.items():
        means.update(dict.fromkeys(_meanings(event, over=over, by_limit=code in codes), count))
    largest = (*untold, *(part.largest for part in parts if part.largest is not None))
    counted = {name: means[name] for name in _COUNTS}
    yield {"trial": key[2], **counted, "largest_admitted": max(largest, default=None)}


def _meanings(event: str, *, over: bool, by_limit: bool) -> Iterator[str]:
    """What an answer counts as, about a message above the limit or not."""
    if event != "failed":
        yield "above" if over else "up_to"
    elif over:
        yield "failed"
    if event == "acknowledged" and over:
        yield "wrongly_admitted"
    if event == "refused":
        yield "refused"
        if not by_limit:
            yield "otherwise"
        elif not over:
            yield "wrongly_refused"


def _delivered_untold(parts: Sequence[Answers]) -> list[int]:
    """Messages above the limit that came although their producers got no answer, or none that tells.

    :return: the value of each.
    """
    above, came = (_together([getattr(part, name) for part in parts]) for name in ("above", "came"))
    answered = pc.is_in(above["event"].cast(pa.string()), pa.array(["acknowledged", "refused"]))
    each = above.append_column("answered", answered).group_by(list(_MESSAGE), use_threads=False)
    messages = each.aggregate([("answered", "any"), ("value", "max")])
    unanswered = messages.filter(pc.invert(messages["answered_any"]))
    untold = unanswered.join(came, list(_MESSAGE), join_type="left semi", use_threads=False)
    values: list[int] = untold["value_max"].to_pylist()
    return values


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    """Several as one, with names of clients that can be compared."""
    table = pa.concat_tables(tables)
    return table.set_column(0, "client", table["client"].cast(pa.string()))


def unacked(topic: Topic, tried: Sequence[Try]) -> Iterator[Part]:
    """What consumers got and acknowledged, and that they came and left.

    :param tried: of unacknowledged messages.
    """
    own = tried_at(topic.topic_key, tried)
    for piece in topic.observations("role", *_HELD) if own else ():
        rows = piece.text("role").among("consumer") & piece.text("event").among(*_OF_CONSUMERS)
        # What came before the trial and was not acknowledged counts in it too.
        rows &= piece.number("time_us") < max(each.end_us for each in own)
        yield topic.topic_key, piece.rows(rows).select(_HELD)


def unacked_together(key: Key, parts: Sequence[pa.Table], tried: Sequence[Try]) -> Iterator[dict[str, Any]]:
    """The most messages that a consumer had and had not acknowledged, as it saw it.

    A consumer takes down what it acknowledges before it tells the broker, so it never has more than the
    broker counts: what is above the limit here is above it there. A message that comes again counts once.

    :return: `trial`, `consumers`, `received`, `acknowledged`, `most`, `left` (consumers that left), `untold`
        (consumers whose observations, of version 1, do not say whether they acknowledge).
    """
    rows = pa.concat_tables(parts).unify_dictionaries()
    for each in tried_at(key, tried):
        own = list(_consumers(Piece(rows.filter(pc.less(rows["time_us"], each.end_us))), each.begin_us))
        if own:
            yield {
                "trial": each.trial,
                "consumers": sum(one.received > 0 for one in own),
                "received": sum(one.received for one in own),
                "acknowledged": sum(one.acknowledged for one in own),
                "most": max((one.most for one in own if one.most is not None), default=None),
                "left": sum(one.left for one in own),
                "untold": sum(not one.tells and one.received > 0 for one in own),
            }


class _Consumer(NamedTuple):
    received: int
    acknowledged: int
    most: int | None
    left: bool
    tells: bool


def _consumers(piece: Piece, begin_us: int) -> Iterator[_Consumer]:
    event, client, at_us = piece.text("event"), piece.text("client").codes, piece.number("time_us")
    change = _changes(piece)
    left = event.among("detached")
    tells = event.among("acknowledged") | piece.known("acknowledges")
    order = np.lexsort((change, at_us, client))
    for rows in np.split(order, np.flatnonzero(np.diff(client[order])) + 1) if len(order) else ():
        own = change[rows]
        held = np.cumsum(own)[at_us[rows] >= begin_us]
        yield _Consumer(
            int(own[own > 0].sum()),
            -int(own[own < 0].sum()),
            int(held.max()) if len(held) else None,
            bool(left[rows].any()),
            bool(tells[rows].any()),
        )


def _changes(piece: Piece) -> Numbers:
    """The messages that each row gives to its consumer or takes from it; of several alike the first does."""
    event = piece.text("event")
    message = np.stack(
        [
            *(piece.text(name).codes.astype(np.int64) for name in ("client", "producer", "event")),
            piece.number("sequence", NEVER),
        ]
    )
    order = np.lexsort((piece.number("time_us"), *message))
    first = np.ones(len(order), np.bool_)
    first[order[1:]] = (message[:, order[1:]] != message[:, order[:-1]]).any(axis=0)
    sign = event.among("received").astype(np.int64) - event.among("acknowledged")
    return np.where(first, sign * piece.number("messages"), 0)
