"""The gateway in the caller's own process: no supervisor, no files watched, no HTTP."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from sluicegate.config.errors import ConfigErrors
from sluicegate.config.load import Loaded, entry_policies, load, parse_file, version_of
from sluicegate.config.models import BrokerConfig, GatewayConfig
from sluicegate.config.port_conflicts import unserved
from sluicegate.engine.gate import DecisionSink
from sluicegate.leasing.joining import holder_of
from sluicegate.model import PolicyLayer, PolicySet, digest_of, version_text
from sluicegate.net.limits import raise_descriptor_limit
from sluicegate.processes.worker import Worker
from sluicegate.runtime.log_sink import LogSink
from sluicegate.runtime.plugins import Plugins, load_plugins

MakeSink = Callable[[BrokerConfig], DecisionSink]


class EmbeddedGateway:
    """All brokers of a configuration on the running event loop.

    Use it as an asynchronous context manager: it serves inside the block.

    :param config: the configuration; its `store`, `admin` and `log` are not used.
    :param layers: policies of all brokers.
    :param plugins: plugin objects beside those that are installed and those that the configuration names.
    :param make_sink: gives the sink of a broker; the decision log as configured if it is left out.
    """

    def __init__(
        self,
        config: GatewayConfig,
        layers: Iterable[PolicyLayer] = (),
        *,
        plugins: Iterable[object] = (),
        make_sink: MakeSink | None = None,
    ) -> None:
        self.config = config
        self._layers = tuple(layers)
        self._extra = tuple(plugins)
        self._make_sink = make_sink
        self._workers: dict[str, Worker] = {}
        self._logs: list[LogSink] = []

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        plugins: Iterable[object] = (),
        environ: Mapping[str, str] = os.environ,
        make_sink: MakeSink | None = None,
    ) -> "EmbeddedGateway":
        """Make a gateway from a file.

        :raises ConfigErrors: if the file has mistakes, or an entry without `listen`.
        :raises PluginError: if a plugin cannot be loaded.
        """
        extra = tuple(plugins)
        parsed = parse_file(path, environ)
        installed = load_plugins(parsed.plugin_modules, extra)
        loaded: Loaded = load(path, installed.policy_models, installed.broker_models, environ, parsed=parsed)
        if errors := list(unserved(loaded.root, loaded.config.brokers)):
            raise ConfigErrors(errors)
        return cls(loaded.config, loaded.policy_layers, plugins=extra, make_sink=make_sink)

    async def __aenter__(self) -> Self:
        """Serve.

        :raises OSError: if a listener cannot be opened; nothing is served then.
        """
        raise_descriptor_limit()
        try:
            for broker in self.config.brokers:
                # Plugins hold state for one broker, so each has its own.
                plugins = load_plugins(self.config.plugins, self._extra)
                self._workers[broker.name] = worker = self._make_worker(broker, plugins)
                await worker.start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving, at once."""
        await self._stop()

    def _make_worker(self, broker: BrokerConfig, plugins: Plugins) -> Worker:
        policies = self._policies(broker)
        holder = None
        if self.config.budgets is not None:
            version = version_text(policies.version)
            holder = holder_of(self.config.budgets, broker.name, plugins.open_budgets, lambda: version)
        if self._make_sink is not None:
            return Worker(broker, plugins, policies, self._make_sink(broker), holder=holder)
        log = LogSink(self.config, broker, plugins)
        self._logs.append(log)
        return Worker(broker, plugins, policies, log.sink, log_stats=log.stats, holder=holder)

    async def _stop(self) -> None:
        for worker in self._workers.values():
            await worker.stop()
        for log in self._logs:
            await log.close()
        self._logs.clear()

    def worker(self, broker: str | None = None) -> Worker:
        """The worker of a broker; without a name, of the first one."""
        return self._workers[broker or self.config.brokers[0].name]

    def address(self, broker: str | None = None, listener: str = "bootstrap") -> tuple[str, int]:
        """Host and port that clients connect to.

        :raises KeyError: if there is no such broker or listener.
        """
        return self.worker(broker).listeners.address(listener)

    def set_policies(self, layers: Sequence[PolicyLayer]) -> int:
        """Replace the policies of all brokers.

        :return: their version.
        """
        self._layers = tuple(layers)
        for worker in self._workers.values():
            worker.replace(self._policies(worker.config))
        return self._version

    def snapshot(self) -> list[dict[str, Any]]:
        """Counters and gauges of all brokers."""
        return [worker.snapshot() for worker in self._workers.values()]

    @property
    def _version(self) -> int:
        return version_of(self.config.brokers, digest_of(self._layers))

    def _policies(self, broker: BrokerConfig) -> PolicySet:
        return entry_policies(broker, self._layers, self._version)
