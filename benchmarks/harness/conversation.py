"""A connection as the bytes that both of its sides send, read by read."""

import base64
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Read: TypeAlias = tuple[bool, bytes]
"""Whether the client sent it, and what the gateway reads at once."""

_DIFFERENT_LENGTHS = 12
"""Seed of how many messages come in one read."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One connection from its beginning, within all limits of its policies."""

    system: str
    policies: Mapping[str, object]
    opening: Sequence[Read]
    """The exchange before the first message."""
    reads: Sequence[Read]
    """Messages and their acknowledgements."""

    def as_json(self) -> str:
        """For a process that runs another tree: `replaying.Replay` takes it."""
        return json.dumps(
            {
                "system": self.system,
                "policies": self.policies,
                "opening": [_readable(read) for read in self.opening],
                "reads": [_readable(read) for read in self.reads],
            }
        )


def _readable(read: Read) -> tuple[bool, str]:
    is_client, data = read
    return is_client, base64.b64encode(data).decode()


def pipelined(
    requests: Sequence[bytes], answers: Sequence[bytes], most_in_flight: int, mean_at_once: float
) -> list[Read]:
    """Requests and their answers in turn, the same way each time.

    :param most_in_flight: requests that are unanswered at most.
    :param mean_at_once: requests or answers that are read at once, more or less.
    """
    chance = random.Random(_DIFFERENT_LENGTHS)
    reads: list[Read] = []
    sent = answered = 0
    while answered < len(requests):
        room = min(len(requests), answered + most_in_flight) - sent
        is_client = bool(room) and (sent == answered or chance.random() < 0.5)
        at_once = 1 + int(chance.expovariate(1 / mean_at_once))
        if is_client:
            end = sent + min(room, at_once)
            reads.append((True, b"".join(requests[sent:end])))
            sent = end
        else:
            end = min(sent, answered + at_once)
            reads.append((False, b"".join(answers[answered:end])))
            answered = end
    return reads
