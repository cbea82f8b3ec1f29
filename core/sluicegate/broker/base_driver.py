"""The base class of drivers, and what plugins get of the gateway of one broker."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, final

from sluicegate.broker.base_front import BaseFront
from sluicegate.broker.extra import Extra
from sluicegate.broker.interface import Interface
from sluicegate.broker.web_services import WebServices, WebSite
from sluicegate.engine.factors import Factor
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.pressure import PressureSource
from sluicegate.engine.state import TopicState
from sluicegate.engine.task import Task
from sluicegate.engine.topic_context import TopicContext
from sluicegate.model import TopicName
from sluicegate.model.own_limits import BrokerTlsFiles, OwnSettings


class BaseDriver(Interface, ABC):
    """A kind of broker, as returned by the hook `sluicegate_broker`.

    Drivers set `system` and `config_model`, and override `name_of` and `front`; of the rest what they need.
    `config` is always the broker's entry, an instance of `config_model`.
    """

    system: str
    """The value of `system:` in the file, such as `kafka`."""
    config_model: type[Any]
    """Pydantic model of the entry under `brokers:`, a subclass of `sluicegate.api.BrokerConfig`."""
    extra: Extra = Extra("", {})
    """What the driver needs besides the base installation; by default nothing."""
    capabilities: Mapping[str, str] = MappingProxyType({})
    """How each policy is supported, by field: native, emulated or not applicable."""
    client_loggers: Sequence[str] = ()
    """Loggers of a client library, which are silenced: the driver logs failures itself."""

    @abstractmethod
    def name_of(self, topic: str, config: Any) -> TopicName:
        """Parse a topic's name into its namespace and the other names that policies may use for it."""

    @abstractmethod
    def front(self, config: Any) -> BaseFront:
        """A front for one configured broker."""

    def quota_factors(self, context: "BrokerContext") -> Sequence[Factor]:
        """Factors that multiply every publish quota of one broker.

        Called once when its gateway starts, after all plugins' `sluicegate_quota_factors`.
        """
        return ()

    def pressure_sources(self, context: "BrokerContext") -> Sequence[PressureSource]:
        """Sources of one broker's pressure, for controllers such as adaptive publish throttling.

        Called once when its gateway starts, after `quota_factors` and all plugins'
        `sluicegate_pressure_sources`.
        """
        return ()

    def tasks(self, context: "BrokerContext") -> Sequence[Task]:
        """Periodic work for one broker, which does not delay messages.

        Called once when its gateway starts, after `pressure_sources` and all plugins' `sluicegate_tasks`.
        """
        return ()

    def web(self, config: Any, services: WebServices) -> WebSite | None:
        """The web site of one configured broker; None if its entry has none."""
        return None

    @property
    @final
    def tells_own_settings(self) -> bool:
        """Whether it overrides `own_settings`, so that `sluicegate import` and `drift` know it."""
        return type(self).own_settings is not BaseDriver.own_settings

    async def own_settings(self, config: Any, tls: BrokerTlsFiles) -> OwnSettings:
        """Read the limits that one configured broker itself has; a few requests, each bounded in time.

        :param tls: for the connections to it.
        :raises OwnSettingsError: if it cannot be asked at all.
        """
        raise NotImplementedError(f"{type(self).__name__} does not override own_settings()")

    def demo(self) -> Any | None:
        """What `sluicegate demo` shows of it, a `sluicegate.demo.scene.BrokerDemo`; None for nothing."""
        return None


class BrokerContext(TopicContext, Protocol):
    """What the gateway of one broker offers plugins that follow the broker's state."""

    @property
    def states(self) -> Mapping[str, TopicState]:
        """States by topic.

        Other threads may read the numbers in them, and copy the mapping first by `tuple(states.items())`.
        """

    @property
    def driver(self) -> BaseDriver | None:
        """The driver of this kind of broker; None for an embedded engine, which asks no broker."""

    @property
    def resolver(self) -> Resolver:
        """What merges the policies in force; a new object after each change. For any thread."""
