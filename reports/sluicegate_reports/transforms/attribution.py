"""Which policy refused a client: clients get a code and a text, the gateway's rows name the policy.

What is told is looked at in this order, and the first that says anything holds:

1. `id`: the decision's id in the text, and the row of that decision;
2. `text`: words that the gateway or a system uses of one policy alone;
3. `log`: at gates, rows of refusals of the same topic, subscription and client within the time of the
   attempt; of clients that the log does not know by name (all of Pulsar's have one name), of any such client;
4. `code`: where there is no decision log, policies that answer with that code and are set on the topic.

What more than one policy may have done is told as that, and never given to one of them. A refusal at a
gateway that the log knows nothing of, with a code that policies answer with, may be theirs all the same (`no
row`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sluicegate_reports.registry import doors, systems
from sluicegate_reports.registry.arms import CONSUMERS, MEMBERS, OF_CONSUMERS, PRODUCERS, SUBSCRIPTIONS
from sluicegate_reports.transforms.ahead import Ahead
from sluicegate_reports.transforms.packed import Numbers, Piece, Topic

_TEXTS = (
    ("Producer limit reached for topic", PRODUCERS),
    ("Subscription limit reached for topic", SUBSCRIPTIONS),
    ("Subscription limit cannot be checked for topic", SUBSCRIPTIONS),
    ("Consumer limit per topic reached", CONSUMERS),
    ("Consumer limit per subscription reached", MEMBERS),
)
"""Words of the gate's refusals, which Danube has too, that one policy alone uses."""

ID, TEXT, LOG, CODE, NO_ROW = "id", "text", "log", "code", "no row"
MARKED = r"\[sluicegate ([0-9a-z]{4,}-[0-9a-z]+)\]"
"""Decision id in a refusal's text, as `sluicegate.decisions.ids` writes it."""
SLACK_US = 500_000
"""Of the clocks of gate and client, what their measured difference leaves, and of the way between them."""
_UNTOLD_US = 3_000_000
"""Longest attempt to attach where observations, of version 1, do not record how long it took."""
ATTACHES = ("attach_producer", "create_subscription", "attach_consumer")
_SECOND_US = 1_000_000


class Attempt(NamedTuple):
    """That a client attached, was refused or left, as it saw it."""

    topic: str | None
    role: str
    client: str
    subscription: str | None
    event: str
    began_us: int | None
    """None if it is not told."""
    told_us: int
    code: str | None
    text: str | None
    decision_id: str | None
    """Of the decision that the text names."""
    policies: Sequence[str] | None = None
    """That may have refused it, sorted; None if it was not refused."""
    how: str | None = None
    """How that is known: one of ID, TEXT, LOG, CODE, NO_ROW, or None."""

    @property
    def since_us(self) -> int:
        """When it began, or was told of."""
        return self.told_us if self.began_us is None else self.began_us


class Rejection(NamedTuple):
    """A refused attachment, as the log tells it."""

    topic: str | None
    role: str
    subscription: str | None
    client: str
    """Its name; empty if there is none."""
    second: int
    """Since 1970, by the clients' clock."""
    policy: str | None
    decision_id: str | None


class Rules(NamedTuple):
    """What registered systems and doors mean by what they answer; where Spark runs they need not be known."""

    texts: tuple[tuple[str, str], ...]
    codes: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Policies, by system and code."""
    ungated: frozenset[str]
    """Doors without a decision log."""

    def named(self, text: str | None) -> str | None:
        """The one policy that the words of a refusal mean; None if they mean none."""
        return next((policy for words, policy in self.texts if words in (text or "")), None)

    def answering(self, system: str, role: str, code: str | None) -> list[str]:
        """Policies that answer with a code; all that may answer a client of its kind where none was told."""
        of_role = (PRODUCERS,) if role == "producer" else OF_CONSUMERS
        answered = self.codes.get(system, {}).get(code, ()) if code is not None else of_role
        return [policy for policy in answered if policy in of_role]


def rules() -> Rules:
    """Those of all registered systems and doors."""
    ungated = frozenset(door.name for door in doors().values() if not door.gate)
    return Rules(texts(), {system.name: dict(system.codes) for system in systems().values()}, ungated)


def texts() -> tuple[tuple[str, str], ...]:
    """Words of the gateway's and of all systems' refusals, each with the one policy that it means."""
    return (*_TEXTS, *(text for system in systems().values() for text in system.texts))


class Log:
    """The policies of an arm's rejections, by the decision's id, and by what was tried, client and second."""

    def __init__(self, rejections: Iterable[Rejection], clients: Collection[str]) -> None:
        """Take rejections.

        :param clients: those whose attempts were refused; the log does not know others by name.
        """
        self._policies: dict[tuple[str | int | None, ...], set[str]] = {}
        for row in rejections:
            # All of Pulsar's clients have a name: one that no refused client has identifies no client.
            name = row.client if row.client in clients else ""
            keys = [(row.topic, row.role, row.subscription or "", name, row.second)]
            for key in (*keys, (row.decision_id,)) if row.decision_id is not None else keys:
                policies = {row.policy} if row.policy is not None else set()
                self._policies.setdefault(key, set()).update(policies)

    def about(self, attempt: Attempt) -> tuple[bool, list[str]]:
        """Whether an attempt names its decision, and the policies of it; else of its client, else of any."""
        began_us = attempt.told_us - _UNTOLD_US if attempt.began_us is None else attempt.began_us
        first, last = (began_us - SLACK_US) // _SECOND_US, (attempt.told_us + SLACK_US) // _SECOND_US
        attempted = attempt.topic, attempt.role, attempt.subscription or ""
        for keys in (
            [(attempt.decision_id,)] if attempt.decision_id is not None else [],
            [(*attempted, attempt.client, second) for second in range(first, last + 1)],
            [(*attempted, "", second) for second in range(first, last + 1)],
        ):
            several = [self._policies[key] for key in keys if key in self._policies]
            if several:
                return len(keys[0]) == 1, sorted(set[str]().union(*several))
        return False, []


def attributed(
    attempt: Attempt, system: str, here: Collection[str], log: Log, by: Rules, *, has_log: bool
) -> Attempt:
    """Say of a refused attempt which policies may have refused it; none of them if others did.

    :param here: the policies that are set on its topic.
    :param has_log: whether its door has a decision log.
    """
    by_id, in_log = log.about(attempt)
    named = by.named(attempt.text)
    if by_id:
        return attempt._replace(policies=in_log, how=ID)
    if named is not None:
        return attempt._replace(policies=[named], how=TEXT)
    if in_log:
        return attempt._replace(policies=in_log, how=LOG)
    answered = sorted(set(by.answering(system, attempt.role, attempt.code)) & set(here))
    how = NO_ROW if has_log else CODE
    return attempt._replace(policies=answered, how=how if answered else None)


def rejections(topic: Topic, clocks: Ahead) -> Iterator[Rejection]:
    """The attachments that the log of a topic says were refused.

    :param clocks: by how much gateways' clocks are ahead.
    """
    for piece in topic.decisions(
        *("time_us", "client", "operation", "subscription", "policy", "action", "decision_id")
    ):
        refused = piece.text("operation").among(*ATTACHES) & piece.text("action").among("reject")
        seconds = clients_us(piece, topic, clocks)[refused] // _SECOND_US
        for row, second in zip(piece.rows(refused).to_pylist(), seconds.tolist(), strict=True):
            role = "producer" if row["operation"] == "attach_producer" else "consumer"
            name = (row["client"] or "").partition("@")[0]
            yield Rejection(
                topic.name, role, row["subscription"], name, second, row["policy"], row["decision_id"]
            )


def clients_us(piece: Piece, topic: Topic, clocks: Ahead) -> Numbers:
    """The times of decisions by the clients' clock, in us since 1970."""
    gate_us = piece.number("time_us")
    (_, first_us), *steps = clocks.get(topic.arm) or [(0, 0.0)]
    at_us = gate_us - round(first_us)
    for from_us, us in steps:
        at_us = np.where(gate_us - round(us) >= from_us, gate_us - round(us), at_us)
    return at_us
