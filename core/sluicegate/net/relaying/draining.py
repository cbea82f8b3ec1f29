"""Drains a gateway's connections: pending requests end first, and clients are sent elsewhere."""

import asyncio
from collections.abc import Collection
from time import monotonic_ns

from sluicegate.broker import Close
from sluicegate.net.relaying.read_control import ENDING
from sluicegate.net.relaying.relay import ClientSide

_PARTING_NS = 1_000_000_000
"""How long a closed connection may take to send queued bytes."""
ANSWER_NS = 3_000_000_000
"""How long a broker may take to respond, if the session does not count its requests."""
_POLL_S = 0.02
_AT_ONCE = 100
"""Most clients to close in one turn, as all of them reconnect elsewhere at once."""


async def drain(live: Collection[ClientSide], deadline_s: float, quiet_s: float) -> None:
    """Accept no new requests, and close each client as soon as it has no pending ones.

    :param live: the clients; those that are closed leave it.
    :param deadline_s: longest time for it, in seconds; the caller closes the remaining clients.
    :param quiet_s: if a session does not count its requests, its client is closed after this time without
        bytes.
    """
    until_ns = monotonic_ns() + int(deadline_s * 1e9)
    quiet_ns = int(quiet_s * 1e9)
    for client in tuple(live):
        if client.session is None or not client.session.reads_while_ending:
            client.pause(ENDING)
    while live and monotonic_ns() < until_ns:
        closed = 0
        for client in tuple(live):
            now_ns = monotonic_ns()
            if client.closing_ns:
                if now_ns - client.closing_ns > _PARTING_NS:
                    client.abort()
            elif closed < _AT_ONCE:
                _see_off(client, now_ns, quiet_ns)
                closed += bool(client.closing_ns)
        await asyncio.sleep(_POLL_S)


def _see_off(client: ClientSide, now_ns: int, quiet_ns: int) -> None:
    """Close a client if it has no pending requests."""
    try:
        commands = client.session.ending(now_ns) if client.session is not None else None
        if commands is None:
            owed_ns = ANSWER_NS if client.unanswered else quiet_ns
            if client.at_rest and now_ns - client.last_ns > owed_ns:
                client.close()
            return
        if commands and isinstance(commands[-1], Close):
            client.pause(ENDING)  # unread bytes must not reset the connection
        if commands:
            client.carry_out(commands)
    except Exception as error:  # noqa: BLE001 - whatever a session raises ends its own client only
        client.failed(error)
