"""A worker process: `python -m sluicegate.processes.worker_main LINE CHANNEL`, started by the supervisor.

Both are descriptors of sockets to the supervisor: for messages, and for listening sockets. The worker
accepts clients during its gateway's term. Without a supervisor it keeps its last policies and runs until the
next gateway takes over, or for `orphan_timeout`.
"""

import signal

if __name__ == "__main__":  # before what takes its time to be imported
    # They may reach all processes; the supervisor alone obeys them, and says when to drain.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)

import asyncio
import logging
import os
import select
import socket
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import uvloop

from sluicegate.config.models import BrokerConfig, GatewayConfig
from sluicegate.leasing.holder import Holder
from sluicegate.leasing.joining import holder_of
from sluicegate.model import version_text
from sluicegate.net.limits import raise_descriptor_limit
from sluicegate.net.listening import handover
from sluicegate.net.listening.held_listeners import Announcer
from sluicegate.net.listening.latch import Latch, Term
from sluicegate.net.listening.sharing import Siblings
from sluicegate.net.listening.sockets import Inherited
from sluicegate.processes import budget_line, collecting, messages
from sluicegate.processes.budget_line import OF_WORKERS, store_of
from sluicegate.processes.liveness import LOOKS, show_stack_when_asked
from sluicegate.processes.worker import Worker
from sluicegate.runtime import logs
from sluicegate.runtime.log_sink import LogSink
from sluicegate.runtime.plugins import PluginError, Plugins, load_plugins
from sluicegate.runtime.unraisable import log_unraisable

log = logging.getLogger("sluicegate.processes.worker_main")  # as a program its own name is __main__

_UNREAD_LIMIT = 4 * 1024 * 1024
"""Bytes of reports that may wait for the supervisor."""


class WorkerMain:
    """One worker and its line to the supervisor.

    :param start: the supervisor's first message.
    :param writer: to the supervisor.
    :param announcer: reports open listeners to it.
    """

    def __init__(self, start: Mapping[str, Any], writer: asyncio.StreamWriter, announcer: Announcer) -> None:
        self._writer = writer
        self._started = asyncio.Event()
        self._drained = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None
        self._is_alone = False
        index, siblings = start.get("worker", 0), start.get("workers", 1)
        plugins = load_plugins(start["config"]["plugins"])
        config, broker = _configuration(start, plugins)
        _set_up_logs(config, broker, plugins, {} if siblings == 1 else {"worker": index})
        send = partial(messages.send, writer)
        self._budgets = store_of(start, send)
        self._term = Term(*map(Latch, start["term"]))
        self._drain_s: float = start["drain_s"]
        self._orphan_s = config.orphan_timeout / 1000
        self._beat_s = config.worker_timeout / 1000 / LOOKS
        self._handovers = handover.directory(config.state_dir)
        self._log_sink = LogSink(config, broker, plugins, compacting=False, worker=index)
        self._worker: Worker = Worker(
            broker,
            plugins,
            messages.policies_from_json(start["policies"]),
            self._log_sink.sink,
            facts=start["facts"],
            keep_fact=lambda key, value: send("fact", key=key, value=value),
            on_tick=self._report,
            log_stats=self._log_sink.stats,
            slow_ms=config.log.slow_plugin_call,
            inherited=_inherited(start["listeners"]),
            announcer=announcer,
            accepting=False,
            holder=self._holder(config, plugins, broker.name, index),
            sharing=_sharing(start) if siblings > 1 else None,
            tell=self._tell_siblings,
        )

    def _holder(self, config: GatewayConfig, plugins: Plugins, broker: str, index: int) -> Holder | None:
        """What leases the worker's limits; None if nobody else has them."""
        line = self._budgets
        if line is not None:
            return holder_of(OF_WORKERS, broker, lambda settings, holder: line, self._policy_version, index)
        if config.budgets is None:
            return None
        return holder_of(config.budgets, broker, plugins.open_budgets, self._policy_version, index)

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Serve until the supervisor, the next gateway or a signal ends it.

        :raises OSError: if a listener cannot be opened or a TLS file cannot be read.
        """
        loop = asyncio.get_running_loop()
        offering: handover.HandoverServer | None = None
        self._beat()
        # From the start on: budgets are asked for while it begins to serve.
        listening = loop.create_task(self._listen(reader))
        try:
            await self._worker.start()
            offering = self._begin_offering()
            self._report()
            messages.send(self._writer, "ready", addresses=dict(self._worker.listeners.addresses))
            loop.add_signal_handler(signal.SIGTERM, self._drain)
            collecting.begin()
            self._term.ends.when_set(self._drain)
            self._term.begins.when_set(self._accept)
            self._started.set()
            await self._drained.wait()
        finally:
            listening.cancel()
            if offering is not None:
                offering.close()
            await self._worker.stop()
            await self._log_sink.close()

    def _policy_version(self) -> str:
        return version_text(self._worker.policies.version)

    def _accept(self) -> None:
        if not self._term.ends.is_set:
            self._worker.listeners.accept()

    def _beat(self) -> None:
        """Show that the event loop turns; reports may take longer."""
        if self._beat_s:
            if not self._is_unread:
                messages.send(self._writer, "beat")
            asyncio.get_running_loop().call_later(self._beat_s, self._beat)

    @property
    def _is_unread(self) -> bool:
        """Whether the supervisor hangs, and nothing more is to be kept for it."""
        return self._writer.transport.get_write_buffer_size() > _UNREAD_LIMIT

    def _tell_siblings(self, kind: str, content: Mapping[str, Any]) -> None:
        if not self._is_unread:
            messages.send(self._writer, "told", of=kind, content=content)

    def _report(self) -> None:
        left_out = logs.tell_left_out()
        if self._is_unread:
            return  # the next report contains all of this one
        snapshot = {**self._worker.snapshot(), "log_lines_left_out": left_out}
        messages.send(self._writer, "snapshot", snapshot=snapshot)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while (message := await messages.receive(reader)) is not None:
                if self._budgets is not None and message["kind"] == budget_line.KIND:
                    self._budgets.hear(message)
                    continue
                await self._started.wait()
                await self._obey(message)
        except messages.BrokenMessageError as error:
            log.error("supervisor sent something that is no message: %s", error)
        if self._budgets is not None:
            self._budgets.lost()
        await self._started.wait()
        if self._draining is None:
            self._go_on_alone()

    async def _obey(self, message: Mapping[str, Any]) -> None:
        match message["kind"]:
            case "policies":
                # Those of 10,000 topics take 50 ms to read, for which clients need not wait.
                policies = await asyncio.to_thread(messages.policies_from_json, message["policies"])
                self._worker.replace(policies)
            case "fact":
                await self._worker.learn(message["key"], message["value"])
            case "told":
                await self._worker.hear(message["of"], message["content"])
            case "renew_tls":
                self._worker.renew_tls()
            case "drain":
                self._drain(message["deadline_s"])

    def _go_on_alone(self) -> None:
        if not self._term.begins.is_set:
            log.error("the supervisor has ended before this gateway served; ending")
            self._drain(0)
            return
        self._is_alone = True
        bound_s = self._orphan_s
        log.warning(
            "no supervisor any more; going on with policies of version %s until the next one takes over%s",
            version_text(self._worker.policies.version),
            f", at most for {bound_s:g} s" if bound_s else "",
        )
        if bound_s:
            asyncio.get_running_loop().call_later(bound_s, self._drain)

    def _begin_offering(self) -> handover.HandoverServer | None:
        """Be ready to hand over to the next supervisor in case this worker's is killed."""
        line = self._writer.get_extra_info("socket").fileno()

        def offer() -> handover.Offered | None:
            # Once the line was given up, its number may be that of a client.
            is_alone = self._is_alone or (_is_cut(line) and self._term.begins.is_set)
            if self._draining is not None or not is_alone:
                return None
            return [
                (self._worker.config.name, name, bound)
                for name, bound in self._worker.listeners.sockets.items()
            ]

        try:
            name = f"worker-{os.getpid()}"
            return handover.HandoverServer(self._handovers, name, offer, self._term.ends)
        except OSError as error:
            log.warning("cannot hand over to another supervisor: %s", error)
            return None

    def _drain(self, deadline_s: float | None = None) -> None:
        if self._draining is None:
            messages.send(self._writer, "draining")
            seconds = self._drain_s if deadline_s is None else deadline_s
            self._draining = asyncio.get_running_loop().create_task(self._drain_and_end(seconds))

    async def _drain_and_end(self, deadline_s: float) -> None:
        try:
            await self._worker.drain(deadline_s)
        finally:
            self._drained.set()


def _configuration(start: Mapping[str, Any], plugins: Plugins) -> tuple[GatewayConfig, BrokerConfig]:
    """The file's content, and the broker's entry."""
    brokers = {
        data["name"]: plugins.drivers[data["system"]].config_model.model_validate(data)
        for data in start["config"]["brokers"]
    }
    rest = {name: value for name, value in start["config"].items() if name != "brokers"}
    return GatewayConfig(brokers=tuple(brokers.values()), **rest), brokers[start["broker"]]


def _set_up_logs(
    config: GatewayConfig, broker: BrokerConfig, plugins: Plugins, labels: Mapping[str, Any]
) -> None:
    """:param labels: what each line carries besides the broker's name."""
    logs.set_up(
        config.log.level,
        config.log.format,
        repeats=config.log.repeats,
        repeat_window_ms=config.log.repeat_window,
        silenced=plugins.drivers[broker.system].client_loggers,
        broker=broker.name,
        **labels,
    )


def _inherited(listeners: Mapping[str, int]) -> Inherited:
    """The listening sockets that the process was started with, by descriptor."""
    return Inherited((name, socket.socket(fileno=number)) for name, number in listeners.items())


def _sharing(start: Mapping[str, Any]) -> Siblings:
    inbox, *inboxes = (socket.socket(fileno=number) for number in (start["inbox"], *start["inboxes"]))
    return Siblings(start["worker"], inbox, inboxes, start["counts"])


def _is_cut(line: int) -> bool:
    """Whether the other end of a socket is closed: the kernel knows it before the event loop does."""
    poller = select.poll()
    poller.register(line, select.POLLHUP)
    return bool(poller.poll(0))


async def main(descriptor: int, channel: int) -> int:
    """Run a worker.

    :param descriptor: of the socket to the supervisor.
    :param channel: descriptor of the socket that reports open listeners to it.
    :return: exit code.
    """
    to_supervisor = socket.socket(fileno=channel)
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=descriptor))
    try:
        start = await messages.receive(reader)
        if start is None:
            return 1
        announcer = Announcer(to_supervisor, sharing=start.get("workers", 1) > 1)
        await WorkerMain(start, writer, announcer).run(reader)
    except (OSError, PluginError, messages.BrokenMessageError, ValueError, KeyError) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        log.error("worker cannot serve: %s", text)
        messages.send(writer, "failed", reason=text)
        return 1
    finally:
        writer.close()
    return 0


if __name__ == "__main__":
    raise_descriptor_limit()
    log_unraisable()
    show_stack_when_asked(int(sys.argv[1]))
    sys.exit(uvloop.run(main(int(sys.argv[1]), int(sys.argv[2]))))
