"""The worker processes of one broker."""

import socket
from collections.abc import Callable, Mapping, Sequence

from sluicegate.config.models import BrokerConfig
from sluicegate.net.listening.held_listeners import HeldListeners
from sluicegate.net.listening.latch import Term
from sluicegate.processes.child import WorkerProcess
from sluicegate.processes.shared_by_workers import SharedByWorkers, Sibling


def worker_processes(
    broker: BrokerConfig,
    content: Callable[[], Mapping[str, object]],
    keep_fact: Callable[[str, str], str],
    taken: Sequence[tuple[str, socket.socket]],
    timeout_s: float,
    term: Term,
) -> list[WorkerProcess]:
    """As many as the broker's entry says, not yet running; they share their listening sockets.

    :param content: gives the first message to a new process, but for what it shares with others.
    :param keep_fact: keeps a key and its value for the broker, and gives the value that is kept.
    :param taken: listening sockets of the gateway before this one, by name.
    :param timeout_s: a process that is silent for longer is stuck, and ended; 0 for never.
    :param term: when clients are accepted.
    """
    count = broker.workers
    if count == 1:
        return [WorkerProcess(broker.name, content, keep_fact, HeldListeners(taken), timeout_s, term)]
    shared = SharedByWorkers(count)
    # The first one has what was taken; the others ask for it.
    held = [HeldListeners(() if index else taken) for index in range(count)]
    workers = []
    for index, own in enumerate(held):
        own.siblings = held
        sibling = Sibling(shared, index)
        worker = WorkerProcess(broker.name, content, keep_fact, own, timeout_s, term, sibling)
        shared.tell.append(worker.tell_soon)
        workers.append(worker)
    return workers
