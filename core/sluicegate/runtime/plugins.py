"""Loads plugins and calls them one by one, so that failures are attributed and stop no other plugin."""

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from sluicegate import __version__
from sluicegate.broker import BaseDriver, BaseFront, InterfaceError
from sluicegate.budgets import BudgetStore, BudgetStoreError
from sluicegate.budgets import plugin as budgets_plugin
from sluicegate.config.asking import fields_of
from sluicegate.config.models import BrokerConfig, Budgets, PolicyModel
from sluicegate.config.secrets import shown_value
from sluicegate.features.drift import plugin as drift_plugin
from sluicegate.features.pressure import plugin as pressure_plugin
from sluicegate.hooks import HookManager, plugin_name
from sluicegate.model import MethodMap
from sluicegate.policies import builtin_plugins
from sluicegate.runtime.left_out import LeftOut
from sluicegate.store import PolicyStore, StoreError
from sluicegate.store import plugin as store_plugin

GROUP = "sluicegate.plugins"
"""Entry point group that installed distributions name their plugins in."""
CHOICE = "SLUICEGATE_LOAD_PLUGINS"
"""Environment variable: which entry points to load, by name, separated by commas; all if it is not set."""


class PluginError(Exception):
    """A plugin cannot be used; the message names it and says what to do.

    :param module: the plugin's module, if the file named it.
    """

    def __init__(self, message: str, module: str = "") -> None:
        super().__init__(message)
        self.module = module


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One loaded plugin, for people."""

    name: str
    version: str
    origin: str
    """`built in`, `entry point` or `file`."""
    hooks: tuple[str, ...]
    """Hooks that it implements, sorted."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """One plugin's implementation of one hook."""

    plugin: str
    _call: Any
    _argument_names: tuple[str, ...]

    def __call__(self, **arguments: object) -> Any:
        """Call it with those of the arguments that it takes.

        :raises Exception: whatever the plugin raises.
        """
        return self._call(*(arguments[name] for name in self._argument_names))

    @property
    def fields(self) -> frozenset[str] | None:
        """The policy fields of which a topic must set one to get a call; None if it is always called."""
        return fields_of(self._call)

    def by_position(self, *names: str) -> Callable[..., Any]:
        """A callable that takes the arguments by position, for frequent calls.

        :param names: of the arguments, in the order in which they are given; most plugins take just these.
        """
        if names == self._argument_names:
            function: Callable[..., Any] = self._call
            return function
        return lambda *given: self(**dict(zip(names, given, strict=True)))


class Plugins:
    """The plugins of one gateway."""

    def __init__(self, manager: pluggy.PluginManager, origins: Mapping[str, tuple[str, str]]) -> None:
        self.manager = manager
        self._origins = origins

    def implementations(self, hook: str) -> list[Implementation]:
        """The implementations of a hook in the order of registration, built-in plugins first.

        Hooks that take the first result are to be asked in reverse, so that others can override what is
        built in.
        """
        caller: pluggy.HookCaller = getattr(self.manager.hook, hook)
        return [
            Implementation(each.plugin_name, each.function, tuple(each.argnames))
            for each in caller.get_hookimpls()
        ]

    @cached_property
    def policy_models(self) -> tuple[type[PolicyModel], ...]:
        """Models of the policy fields of all plugins.

        :raises PluginError: if a plugin gives something else.
        """
        return tuple(self._policy_models())

    def _policy_models(self) -> Iterator[type[PolicyModel]]:
        for ask in self.implementations("sluicegate_policy_model"):
            with _named(ask.plugin, "sluicegate_policy_model"):
                declared = ask()
                models = (declared,) if isinstance(declared, type) else tuple(declared)
            for model in models:
                if not (isinstance(model, type) and issubclass(model, PolicyModel)):
                    raise PluginError(
                        f"plugin {ask.plugin!r}: sluicegate_policy_model gave {model!r}, "
                        "expected subclasses of sluicegate.config.PolicyModel"
                    )
                yield model

    @cached_property
    def drivers(self) -> Mapping[str, BaseDriver]:
        """Broker drivers by system, without those that are left out.

        :raises PluginError: if a plugin raises, or two drive the same system.
        """
        return {
            system: driver
            for system, (_, driver) in self._every_driver.items()
            if system not in self.left_out
        }

    @cached_property
    def left_out(self) -> Mapping[str, LeftOut]:
        """Drivers whose extra is not installed, by system; raises as `drivers` does."""
        absent: dict[str, LeftOut] = {}
        for system, (plugin, driver) in self._every_driver.items():
            if missing := driver.extra.missing():
                absent[system] = LeftOut(plugin, system, tuple(missing), driver.extra.remedy)
        return absent

    def driver_of(self, system: str) -> tuple[str, BaseDriver] | None:
        """The plugin that drives a system, and its driver; None if there is none."""
        return None if system in self.left_out else self._every_driver.get(system)

    def front(self, config: BrokerConfig) -> BaseFront:
        """The front for one entry.

        :raises PluginError: if the room's classes differ from their base classes, or it is no front.
        """
        plugin, driver = self._every_driver[config.system]
        try:
            front = driver.front(config)
        except InterfaceError as error:
            raise PluginError(f"plugin {plugin!r} cannot be used: {error}") from error
        if not isinstance(front, BaseFront):
            raise PluginError(f"plugin {plugin!r}: front() gave {front!r}, expected a BaseFront")
        return front

    @cached_property
    def _every_driver(self) -> Mapping[str, tuple[str, BaseDriver]]:
        drivers: dict[str, tuple[str, BaseDriver]] = {}
        for ask in self.implementations("sluicegate_broker"):
            with _named(ask.plugin, "sluicegate_broker"):
                driver = _driver(ask())
                system = driver.system
            if system in drivers:
                raise PluginError(
                    f"plugin {ask.plugin!r} drives {system!r}, which another plugin does already"
                )
            drivers[system] = ask.plugin, driver
        for system, methods in self.method_maps.items():
            made = self._driver_of(methods) if system not in drivers else None
            if made is not None:
                drivers[system] = made
        return drivers

    @cached_property
    def method_maps(self) -> Mapping[str, MethodMap]:
        """Method maps by system; if several plugins have one, that of the plugin loaded last.

        :raises PluginError: if a plugin raises, or gives something else.
        """
        maps: dict[str, MethodMap] = {}
        for ask in self.implementations("sluicegate_method_map"):
            with _named(ask.plugin, "sluicegate_method_map"):
                methods = ask()
            if not isinstance(methods, MethodMap):
                raise PluginError(
                    f"plugin {ask.plugin!r}: sluicegate_method_map gave {methods!r}, expected a MethodMap"
                )
            maps[methods.system] = methods
        return maps

    def _driver_of(self, methods: MethodMap) -> tuple[str, BaseDriver] | None:
        """Plugin and driver for a method map; None if no plugin makes one."""
        for ask in reversed(self.implementations("sluicegate_grpc_driver")):
            with _named(ask.plugin, "sluicegate_grpc_driver", of=f" for {methods.system!r}"):
                answer = ask(methods=methods)
                driver = _driver(answer) if answer is not None else None
            if driver is not None:
                return ask.plugin, driver
        return None

    @cached_property
    def broker_models(self) -> tuple[type[BrokerConfig], ...]:
        """Configuration models of all drivers; those of drivers that are left out refuse their `system:`."""
        return tuple(
            self.left_out[system].refusing(driver.config_model)
            if system in self.left_out
            else driver.config_model
            for system, (_, driver) in self._every_driver.items()
        )

    @cached_property
    def every_broker_model(self) -> tuple[type[BrokerConfig], ...]:
        """Configuration models of all drivers, also of those that are left out, to check a file anywhere."""
        return tuple(driver.config_model for _, driver in self._every_driver.values())

    @property
    def packages(self) -> frozenset[str]:
        """The top-level packages that all plugins come from."""
        names = (plugin_name(plugin) for plugin in self.manager.get_plugins())
        return frozenset(name.partition(".")[0] for name in names)

    def open_store(self, url: str) -> PolicyStore:
        """Open the policy store behind a URL.

        :raises StoreError: if it cannot be opened now.
        :raises PluginError: if no plugin knows the kind of URL, or one raises anything else.
        """
        for ask in reversed(self.implementations("sluicegate_metadata_store")):
            store: PolicyStore | None
            try:
                store = ask(url=url)
            except StoreError:
                raise
            except Exception as error:
                raise PluginError(
                    f"plugin {ask.plugin!r}: sluicegate_metadata_store raised {error!r}"
                ) from error
            if store is not None:
                return store
        raise PluginError(
            f"no plugin opens the store {shown_value(url)}, expected sqlite:///PATH, etcd://HOST or memory:"
        )

    def open_budgets(self, settings: Budgets, holder: str) -> BudgetStore:
        """Open the budget store of a section.

        :param holder: of the places that this process takes.
        :raises BudgetStoreError: if it cannot be used.
        """
        for ask in reversed(self.implementations("sluicegate_budget_store")):
            store: BudgetStore | None
            try:
                store = ask(url=settings.url, settings=settings, holder=holder)
            except BudgetStoreError:
                raise
            except Exception as error:
                text = f"plugin {ask.plugin!r}: sluicegate_budget_store raised {error!r}"
                raise BudgetStoreError(text) from error
            if store is not None:
                return store
        raise BudgetStoreError(
            f"no plugin opens the budget store {shown_value(settings.url)}, expected redis://HOST:6379/0, "
            "rediss://, redis+sentinel:// or redis+cluster://"
        )

    def overview(self) -> list[PluginInfo]:
        """All plugins, for people."""
        return [
            PluginInfo(
                name,
                *self._origins[name],
                hooks=tuple(sorted(caller.name for caller in self.manager.get_hookcallers(plugin) or ())),
            )
            for name, plugin in self.manager.list_name_plugin()
            if plugin is not None
        ]


@contextmanager
def _named(plugin: str, hook: str, of: str = "") -> Iterator[None]:
    """Name the plugin and its hook in the error of what it raises."""
    try:
        yield
    except Exception as error:
        raise PluginError(f"plugin {plugin!r}: {hook} raised {error!r}{of}") from error


def _driver(answer: object) -> BaseDriver:
    """What a hook returned, if it is a driver.

    :raises TypeError: otherwise.
    """
    if not isinstance(answer, BaseDriver):
        raise TypeError(f"{answer!r} is no driver, expected an instance of a subclass of BaseDriver")
    return answer


def plugins_of(plugins: Iterable[object] = (), *, builtin: bool = True) -> Plugins:
    """The product's own policies and these plugins, without those that are installed.

    :param builtin: False to leave the product's own policies out.
    :raises ValueError: if two have the same name.
    :raises pluggy.PluginValidationError: if a hook or one of its arguments does not exist, or a hook is a
        wrapper.
    """
    manager = HookManager()
    origins: dict[str, tuple[str, str]] = {}
    for plugin in builtin_plugins() if builtin else ():
        name = _built_in_name(plugin)
        manager.register(plugin, name)
        origins[name] = (__version__, "built in")
    for plugin in plugins:
        manager.register(plugin, plugin_name(plugin))
        origins[plugin_name(plugin)] = ("", "program")
    manager.check_pending()
    return Plugins(manager, origins)


def _built_in_name(plugin: object) -> str:
    """Name of a built-in plugin, as in metrics labels: without the package `features`."""
    return plugin_name(plugin).replace("sluicegate.features.", "sluicegate.")


def load_plugins(modules: Iterable[str], extra: Iterable[object] = ()) -> Plugins:
    """Load the built-in plugins, the installed ones, and those that the file names.

    :param modules: importable modules, in this order.
    :param extra: further plugin objects, as tests and embedding programs have them.
    :return: the plugins; those that drive a kind of broker whose extra is not installed are left out whole.
    :raises PluginError: if one cannot be imported, implements a hook that does not exist or as a wrapper, or
        has no driver to give where it says so.
    """
    manager = HookManager()
    origins: dict[str, tuple[str, str]] = {}

    def register(plugin: object, name: str, version: str, origin: str) -> None:
        try:
            manager.register(plugin, name)
            manager.check_pending()
        except (ValueError, pluggy.PluginValidationError) as error:
            raise PluginError(f"plugin {name!r} cannot be used: {error}") from error
        origins[name] = (version, origin)

    for plugin in (*builtin_plugins(), store_plugin, budgets_plugin, pressure_plugin, drift_plugin):
        register(plugin, _built_in_name(plugin), __version__, "built in")
    for entry_point in _chosen():
        version = entry_point.dist.version if entry_point.dist is not None else ""
        register(_load(entry_point.load, entry_point.name), entry_point.name, version, "entry point")
    for module in modules:
        try:
            plugin = _load(lambda name=module: importlib.import_module(name), module)
            register(plugin, module, str(getattr(plugin, "__version__", "")), "file")
        except PluginError as error:
            raise PluginError(str(error), module) from error
    for plugin in extra:
        register(plugin, plugin_name(plugin), str(getattr(plugin, "__version__", "")), "program")
    plugins = Plugins(manager, origins)
    for plugin in {absent.plugin for absent in plugins.left_out.values()}:
        manager.unregister(name=plugin)
    return plugins


def _chosen() -> list[EntryPoint]:
    points = sorted(entry_points(group=GROUP), key=lambda entry_point: entry_point.name)
    choice = os.environ.get(CHOICE)
    if choice is None:
        return points
    wanted = [name.strip() for name in choice.split(",") if name.strip()]
    known = {entry_point.name: entry_point for entry_point in points}
    for name in wanted:
        if name not in known:
            installed = ", ".join(known) or "none"
            raise PluginError(f"{CHOICE} names {name!r}, but the installed plugins are: {installed}")
    return [known[name] for name in wanted]


def _load(load: Any, name: str) -> object:
    try:
        return load()
    except Exception as error:
        raise PluginError(
            f"plugin {name!r} cannot be imported: {type(error).__name__}: {error}; fix it, uninstall it, "
            f"or name the ones to load in {CHOICE}"
        ) from error
