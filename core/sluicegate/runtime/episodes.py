"""Log lines of rate limiting that goes on: when it starts, once it has lasted, and when it ends."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluicegate.model import Decision, Operation, split_client

log = logging.getLogger("sluicegate.policy")

PAUSE_NS = 2_000_000_000
"""Limiting has ended once nothing was held for this long; the next hold starts it again."""
_MOST = 10_000
_CLIENTS = 100
"""Clients of an episode that are told apart."""
_NAMED = 5


@dataclass(slots=True)
class _Episode:
    """Continuing rate limiting of one topic by one policy."""

    since_ns: int
    last_ns: int
    limit: float
    observed: bool
    held: int = 0
    messages: int = 0
    clients: dict[str, None] = field(default_factory=dict)
    """Client ids, in the order in which they were held."""
    is_reported: bool = False

    def add(self, op: Operation, decision: Decision, now_ns: int) -> None:
        """Count an operation that was held."""
        self.last_ns = now_ns
        self.limit = decision.reasons[0].limit
        self.held += 1
        self.messages += op.messages
        if len(self.clients) < _CLIENTS:
            self.clients[split_client(op.client)[0]] = None

    @property
    def who(self) -> str:
        """The clients, for a line."""
        names = list(self.clients)
        named, more = ", ".join(names[:_NAMED]), len(names) - _NAMED
        return f"{named} and {more} more" if more > 0 else named


class Episodes:
    """The episodes of all topics and policies of one broker.

    :param sustained_ns: limiting that lasts this long is a warning.
    """

    def __init__(self, sustained_ns: int) -> None:
        self._sustained_ns = sustained_ns
        self._running: dict[tuple[str, str], _Episode] = {}

    def held(self, op: Operation, decision: Decision, now_ns: int) -> None:
        """An operation was held, or would have been."""
        key = (decision.reasons[0].policy, op.topic)
        episode = self._running.get(key)
        if episode is not None and now_ns - episode.last_ns > PAUSE_NS:
            self._end(key)
            episode = None
        if episode is None:
            if len(self._running) >= _MOST:
                self._running.clear()
            episode = _Episode(now_ns, now_ns, 0, decision.observed)
            self._running[key] = episode
            episode.add(op, decision, now_ns)
            _log(logging.INFO, "rate limiting started", key, episode)
            return
        episode.add(op, decision, now_ns)
        if not episode.is_reported and now_ns - episode.since_ns >= self._sustained_ns:
            episode.is_reported = True
            seconds = (now_ns - episode.since_ns) / 1e9
            text = f"rate limiting sustained for {seconds:.0f} s, {episode.held} operations held"
            _log(logging.WARNING, text, key, episode)

    def end_quiet(self, now_ns: int, held: Mapping[str, int]) -> None:
        """End the episodes in which nothing is held any more; call it once a second.

        :param held: operations held now, by topic.
        """
        for key, episode in tuple(self._running.items()):
            if key[1] in held and not episode.observed:
                episode.last_ns = now_ns
            elif now_ns - episode.last_ns > PAUSE_NS:
                self._end(key)

    def _end(self, key: tuple[str, str]) -> None:
        episode = self._running.pop(key)
        seconds = (episode.last_ns - episode.since_ns) / 1e9
        text = (
            f"rate limiting ended after {seconds:.0f} s, {episode.held} operations with "
            f"{episode.messages} messages held"
        )
        _log(logging.INFO, text, key, episode)


def _log(level: int, text: str, key: tuple[str, str], episode: _Episode) -> None:
    policy, topic = key
    log.log(
        level,
        text,
        extra={
            "policy": policy,
            "topic": topic,
            "limit": episode.limit,
            "clients": episode.who,
            "observed": episode.observed,
        },
    )
