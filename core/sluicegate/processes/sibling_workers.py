"""The worker processes of one broker."""

import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from sluicegate.config.models import BrokerConfig
from sluicegate.net.listening.held_listeners import HeldListeners
from sluicegate.net.listening.latch import Term
from sluicegate.processes.child import WorkerProcess


def worker_processes(
    broker: BrokerConfig,
    content: Callable[[], Mapping[str, object]],
    keep_fact: Callable[[str, str], None],
    taken: Sequence[tuple[str, socket.socket]],
    timeout_s: float,
    term: Term,
) -> list[WorkerProcess]:
    """As many as the broker's entry says, not yet running; they share their listening sockets.

    :param content: gives the first message to a new process, but for its index.
    :param keep_fact: keeps a key and its value for the broker.
    :param taken: listening sockets of the gateway before this one, by name.
    :param timeout_s: a process that is silent for longer is stuck, and ended; 0 for never.
    :param term: when clients are accepted.
    """
    count = broker.workers
    if count == 1:
        return [WorkerProcess(broker.name, content, keep_fact, HeldListeners(taken), timeout_s, term)]
    workers: list[WorkerProcess] = []

    def keep(index: int, key: str, value: str) -> None:
        keep_fact(key, value)
        for other in workers[:index] + workers[index + 1 :]:
            other.tell("fact", key=key, value=value)

    # The first one has what was taken; the others ask for it.
    held = [HeldListeners(() if index else taken) for index in range(count)]
    for index, own in enumerate(held):
        own.siblings = held
        start = partial(_start, content, index, count)
        name = f"{broker.name}/{index}"
        workers.append(WorkerProcess(broker.name, start, partial(keep, index), own, timeout_s, term, name))
    return workers


def _start(content: Callable[[], Mapping[str, object]], index: int, count: int) -> Mapping[str, object]:
    return {**content(), "worker": index, "workers": count}
