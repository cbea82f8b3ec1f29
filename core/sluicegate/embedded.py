"""The policy engine in the caller's process, for interceptors in a server or a client.

One thread does what `sluicegate run` does in processes of its own: it follows the policy file and the store,
and makes the calls that are due once a second.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from ssl import SSLContext
from threading import Event, RLock, Thread
from time import monotonic_ns
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeAlias

from sluicegate.broker import BaseDriver, BaseFront
from sluicegate.config.fields import PolicyFields
from sluicegate.config.load import entry_policies, load, parse_file, version_of
from sluicegate.config.models import BrokerConfig, Decisions, GatewayConfig
from sluicegate.config.units import HostPort
from sluicegate.engine.gate import DecisionSink, Gate
from sluicegate.engine.gates import GateCache
from sluicegate.hooks import hookimpl
from sluicegate.host.forks import ForkGuard
from sluicegate.host.private_files import make_folder
from sluicegate.model import MethodMap, PolicyLayer, PolicySet, TopicName, digest_of, path_name
from sluicegate.runtime.client_policies import for_client
from sluicegate.runtime.effective import Asker, BrokerPolicies, capabilities_of
from sluicegate.runtime.facts import Facts
from sluicegate.runtime.host import EngineHost
from sluicegate.runtime.log_sink import LogSink
from sluicegate.runtime.plugins import Plugins, load_plugins
from sluicegate.runtime.policies_by_url import PoliciesByUrl, PolicyUrlError
from sluicegate.runtime.policies_in_force import PolicyWatch

__all__ = ["PolicyEngine", "PolicyUrlError", "ServiceConfig"]

log = logging.getLogger(__name__)

_LOOKS_A_SECOND = 4
"""How often file and store are checked for changes."""
_LOOKS_TO_DROP = 60 * _LOOKS_A_SECOND
_TOKEN = "SLUICEGATE_TOKEN"  # noqa: S105 - the name of a variable

Door: TypeAlias = Literal["interceptor", "client"]
NameOf = Callable[[str], TopicName]


class ServiceConfig(BrokerConfig):
    """A service that applies the policies itself, without a gateway in front of it."""

    policy_defaults: ClassVar[Mapping[str, int | float | str | bool]] = {
        "on_limit.max_publish_rate": "reject",
        "on_limit.max_publish_rate_bytes": "reject",
        "on_limit.publish_quota": "reject",
        "on_limit.publish_quota_bytes": "reject",
        "on_limit.principal_publish_quota": "reject",
        "on_limit.principal_publish_quota_bytes": "reject",
    }

    system: Literal["service"]
    """Kind of broker: a service with interceptors."""
    bootstrap: tuple[HostPort, ...] = ()
    """Not used."""


class _ServiceDriver(BaseDriver):
    """The driver of `system: service`, which only this module registers."""

    system = "service"
    config_model = ServiceConfig

    def name_of(self, topic: str, config: object) -> TopicName:
        """Parse a topic's name by `model.path_name`."""
        return path_name(topic)

    def front(self, config: object) -> BaseFront:
        """Not available."""
        raise NotImplementedError("a service has no gateway in front of it")


class _ServicePlugin:
    @hookimpl
    def sluicegate_broker(self) -> _ServiceDriver:
        return _ServiceDriver()


class PolicyEngine:
    """Policies, gates and decision log of one broker.

    Interceptors and client wrappers hold `lock` while they use gates. Create one by `from_file`, or from:

    :param config: the configuration; its `store`, `admin` and `log.level` are not used.
    :param layers: the policies.
    :param broker: name of the broker's entry; by default the first one.
    :param plugins: plugin objects besides those that are installed and those that the configuration names.
    :param name_of: parses a topic's name; by default the broker's driver does.
    :param sink: receives every decision; by default the configured decision log.
    :raises PluginError: if a plugin cannot be loaded.
    :raises KeyError: if there is no such broker.
    """

    def __init__(
        self,
        config: GatewayConfig,
        layers: Iterable[PolicyLayer] = (),
        *,
        broker: str | None = None,
        plugins: Iterable[object] = (),
        name_of: NameOf | None = None,
        sink: DecisionSink | None = None,
    ) -> None:
        loaded = load_plugins(config.plugins, (*plugins, _ServicePlugin()))
        self._begin(config, tuple(layers), broker, loaded, name_of, sink, None)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        broker: str | None = None,
        *,
        plugins: Iterable[object] = (),
        name_of: NameOf | None = None,
        environ: Mapping[str, str] = os.environ,
        sink: DecisionSink | None = None,
        door: Door = "interceptor",
    ) -> Self:
        """Create an engine that follows a file and its store; it applies changes within a second.

        :param door: what the decision log says of the place of the decisions.
        :param environ: environment that overrides the file.
        :raises ConfigErrors: if the file has errors.
        :raises PluginError: if a plugin cannot be loaded.
        :raises StoreError: if the store cannot be read.
        :raises KeyError: if there is no such broker.
        """
        parsed = parse_file(path, environ)
        installed = load_plugins(parsed.plugin_modules, (*plugins, _ServicePlugin()))
        loaded = load(path, installed.policy_models, installed.broker_models, environ, parsed=parsed)
        make_folder(Path(loaded.config.state_dir))
        watch = PolicyWatch(path, loaded, installed, environ)
        engine = cls.__new__(cls)
        try:
            begin = engine._begin  # noqa: SLF001 - shared with the constructor
            begin(loaded.config, (), broker, installed, name_of, sink, watch, door=door)
        except BaseException:
            watch.close()
            raise
        return engine

    @classmethod
    def from_url(
        cls,
        url: str,
        broker: str | None = None,
        *,
        token: str | None = None,
        tls: SSLContext | None = None,
        timeout_s: float = 10.0,
        state_dir: str | os.PathLike[str] | None = None,
        plugins: Iterable[object] = (),
        sink: DecisionSink | None = None,
        door: Door = "interceptor",
    ) -> Self:
        """Create an engine that follows the policies of a gateway; it applies changes within a second.

        The last good policies stay in force while the gateway is away, is slow, or answers nonsense.

        :param url: of the gateway's admin endpoint, such as `http://gateway:9095`.
        :param broker: the broker's entry at the gateway; may be left out if there is only one.
        :param token: of a caller in the gateway's `admin.callers`, whose scope is `read`; by default the
            environment's SLUICEGATE_TOKEN. A gateway on this host needs none.
        :param tls: context for `https:`; by default the system's authorities.
        :param timeout_s: how long to wait for the first policies, in seconds.
        :param state_dir: folder for the decision log and for the last good policies, with which the engine
            starts while the gateway is away. Without it, neither is kept.
        :param door: what the decision log says of the place of the decisions.
        :raises PolicyUrlError: if there are no policies in time.
        :raises PluginError: if a plugin cannot be loaded.
        :raises ValueError: if the URL cannot be one of a gateway.
        """
        installed = load_plugins((), (*plugins, _ServicePlugin()))
        folder = None if state_dir is None else Path(state_dir)
        watch = PoliciesByUrl(url, broker, installed, token or os.environ.get(_TOKEN), tls, folder)
        watch.start(timeout_s)
        engine = cls.__new__(cls)
        try:
            config = GatewayConfig(brokers=(watch.config,), decisions=Decisions(enabled=folder is not None))
            if folder is not None:
                config = config.model_copy(update={"state_dir": os.fspath(folder)})
            begin = engine._begin  # noqa: SLF001 - shared with the constructor
            begin(config, (), None, installed, None, sink, watch, door=door, journal=folder is not None)
        except BaseException:
            watch.close()
            raise
        return engine

    def _begin(
        self,
        config: GatewayConfig,
        layers: tuple[PolicyLayer, ...],
        broker: str | None,
        plugins: Plugins,
        name_of: NameOf | None,
        sink: DecisionSink | None,
        watch: PolicyWatch | PoliciesByUrl | None,
        *,
        door: Door = "interceptor",
        journal: bool = True,
    ) -> None:
        self.config: BrokerConfig = _entry(config, broker, door)
        """The broker's entry."""
        self.lock = RLock()
        """Held during each use of gates, because other threads may use and replace them. Reentrant, because a
        stream releases its place when it is garbage collected, which may happen anywhere."""
        self._watch = watch
        self._for_clients = door == "client" or isinstance(watch, PoliciesByUrl)
        self.not_enforced: Mapping[str, str] = {}
        """Why policies that are set do not apply in this process, by field."""
        self._plugins = plugins
        self._applied_changes = 0
        self._layers = layers
        self._log: LogSink | None = None
        if sink is None:
            self._log = LogSink(config, self.config, plugins, door=door, journal=journal)
            sink = self._log.sink
        self._unkept: dict[str, str] = {}
        known = {} if watch is None else watch.facts(self.config.name)
        self._host = EngineHost(
            self.config,
            plugins,
            self._policies(),
            sink,
            apply=self._apply,
            facts=Facts(known, self._unkept.__setitem__),
            name_of=name_of,
            slow_ms=config.log.slow_plugin_call,
        )
        self._start()

    def _start(self) -> None:
        self.gates: GateCache = self._host.gates
        """Compiled gates by topic."""
        self.context = self._host.context
        """The broker context for plugins."""
        self.faults = self._host.faults
        """Exceptions of plugins."""
        self._every_second: list[Callable[[int], bool]] = []
        self._ending = Event()
        self._process = os.getpid()
        self._fork_guard = ForkGuard(self.lock, self._forked)
        self._thread = Thread(target=self._follow, name="sluicegate-engine", daemon=True)
        self._host.notify("sluicegate_startup")
        if (tasks := self._host.dynamics.start()) is not None:
            tasks.wait_first()
        self._thread.start()

    # -- for interceptors -----------------------------------------------------------------------------

    def gate(self, topic: str, exempt: bool, now_ns: int) -> Gate:
        """The gate of a topic; the caller holds the lock, and must not use the gate after releasing it."""
        return self.gates.get(topic, exempt, now_ns)

    @property
    def policies(self) -> PolicySet:
        """The policies now in force; a new object after each change."""
        return self._host.policies

    @property
    def max_hold_ns(self) -> int:
        """The longest time for which a call may be held."""
        return self.config.max_hold * 1_000_000

    def wall_ms(self, now_ns: int) -> int:
        """Wall-clock milliseconds since 1970 at a monotonic time; never ahead of the machine's clock."""
        return self._host.wall_clock.ms(now_ns)

    def method_map(self, system: str | None = None) -> MethodMap:
        """The method map that a plugin provides for a system; by default for that of the broker's entry.

        :raises KeyError: if no plugin has one.
        """
        return self._host.plugins.method_maps[system or self.config.system]

    def every_second(self, call: Callable[[int], bool]) -> None:
        """Register a call to make about once a second, under the lock, with the monotonic time.

        :param call: returns False when it need not be called again.
        """
        with self.lock:
            self._every_second.append(call)

    # -- policies -------------------------------------------------------------------------------------

    def set_policies(self, layers: Sequence[PolicyLayer]) -> int:
        """Replace the policies; not for an engine that follows a file.

        :return: their version.
        :raises ValueError: if the engine follows a file.
        """
        if self._watch is not None:
            raise ValueError("the policies are those of a file and its store: change them there")
        with self.lock:
            self._layers = tuple(layers)
            self._host.replace(self._policies())
            return self._host.policies.version

    def explain(self, topic: str, principal: str = "", client: str = "", group: str = "") -> dict[str, Any]:
        """Which policies apply to a topic, and where each value comes from; counts are of this process.

        :param principal: with `client` (its id) and `group`, whose operations; by default those in no scope.

        :return: as JSON, what `sluicegate explain TOPIC --json` shows, and `not_enforced`: why policies that
            are set do not apply in this process, by field.
        """
        with self.lock:
            explained = BrokerPolicies(
                self.config,
                self._plugins.drivers[self.config.system],
                self.context.resolver,
                PolicyFields.of(self._plugins.policy_models),
                self.context.recall(""),
            ).explain(topic, Asker(principal, client, group))
        return {**explained, "counts": "of this process", "not_enforced": dict(self.not_enforced)}

    def _policies(self) -> PolicySet:
        if self._watch is not None:
            policies = self._watch.policies(self.config.name)
        else:
            version = version_of([self.config], digest_of(self._layers))
            policies = entry_policies(self.config, self._layers, version)
        return self._of_clients(policies) if self._for_clients else policies

    def _of_clients(self, policies: PolicySet) -> PolicySet:
        """Leave out what the process of a client cannot enforce, and say so by name."""
        unknown = self._watch.unknown if isinstance(self._watch, PoliciesByUrl) else ()
        capabilities = capabilities_of(self._plugins.drivers.get(self.config.system))
        kept, reasons = for_client(policies, self.config.system, capabilities, unknown)
        if reasons.keys() - self.not_enforced.keys():
            named = "; ".join(f"{field}: {why}" for field, why in reasons.items())
            log.warning("policies of %s that this process does not enforce: %s", self.config.name, named)
        self.not_enforced = reasons
        return kept

    # -- life -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Flush the decision log and close the store; idempotent, and nothing in the child of a fork."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._thread.join()
        self._host.dynamics.stop()
        self._host.notify("sluicegate_shutdown")
        self._keep_facts()
        if self._log is not None:
            self._log.log.close()
        if self._watch is not None:
            self._watch.close()

    def _forked(self) -> None:
        """The threads, the log and the store are those of the parent."""
        self._ending.set()
        self.gates.refuse(self._refuse_forked)

    def _refuse_forked(self, topic: str, exempt: bool, now_ns: int) -> Gate:
        raise RuntimeError(
            f"the policies were opened in process {self._process}, before a fork: open client and policies "
            "in this process"
        )

    def __enter__(self) -> Self:
        """Return the engine; leaving the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def log_stats(self) -> dict[str, int]:
        """Counters of the decision log."""
        return self._log.stats() if self._log is not None else {}

    def _follow(self) -> None:
        looks = 0
        while not self._ending.wait(1 / _LOOKS_A_SECOND):
            looks += 1
            try:
                self._look(looks)
            except Exception:  # the next look is as good
                log.exception("following the policies failed")

    def _look(self, looks: int) -> None:
        if self._watch is not None:
            self._watch.check()  # may be slow: not under the lock
            if self._watch.changes != self._applied_changes:
                self._applied_changes = self._watch.changes
                with self.lock:
                    self._host.replace(self._policies())
        self._keep_facts()
        if isinstance(self._watch, PoliciesByUrl):
            self._watch.publish(self.context.metrics)
        if looks % _LOOKS_A_SECOND == 0:
            self._host.tls.look(datetime.now(UTC))
        with self.lock:
            if looks % _LOOKS_A_SECOND == 0:
                self._host.wall_clock.follow()
                now_ns = monotonic_ns()
                self._host.tick(now_ns)
                self._every_second = [call for call in self._every_second if _goes_on(call, now_ns)]
            if looks % _LOOKS_TO_DROP == 0:
                for _ in self.gates.drop_unused():
                    pass

    def _keep_facts(self) -> None:
        while self._watch is not None and self._unkept:
            self._watch.keep_fact(self.config.name, *self._unkept.popitem())

    def _apply(self, call: Callable[[], None]) -> None:
        with self.lock:
            call()


def _goes_on(call: Callable[[int], bool], now_ns: int) -> bool:
    """Make a once-a-second call; an error does not stop the others."""
    try:
        return call(now_ns)
    except Exception:
        log.exception("once-a-second work failed")
        return True


def _entry(config: GatewayConfig, broker: str | None, door: Door) -> BrokerConfig:
    for entry in config.brokers:
        if broker is None or entry.name == broker:
            # A client looks after no volumes of its broker, and has no login for it.
            return entry.model_copy(update={"storage": None}) if door == "client" else entry
    raise KeyError(broker)
