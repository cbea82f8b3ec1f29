"""What the gateway of one broker offers the checks of its topics."""

import ssl
from collections.abc import Callable, Mapping, Sequence
from logging import Logger
from typing import Any, Protocol

from sluicegate.engine.factors import Factors
from sluicegate.engine.plugin_metrics import Metrics
from sluicegate.engine.pressure import PressureSource
from sluicegate.engine.quota import Quota
from sluicegate.model import EffectivePolicies


class TopicContext(Protocol):
    """What the gateway of one broker offers the checks of its topics.

    Only the thread that owns the gates may use what is not marked "for any thread"; tasks run in another one.
    """

    @property
    def broker(self) -> str:
        """Name of the broker's entry."""

    @property
    def system(self) -> str:
        """The kind of broker, such as `kafka`."""

    @property
    def config(self) -> Any:
        """The broker's entry, a `sluicegate.config.BrokerConfig`."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """TLS for the broker's TLS addresses; None if the file does not configure any.

        It can be kept: each new connection uses the current content of the files. For any thread.
        """

    def tls_for(self, section: Any) -> ssl.SSLContext:
        """TLS as a section of the entry configures it; can be kept, too. For any thread.

        :param section: a `sluicegate.config.models.BrokerTls`, one of the entry's `tls_sections`. If it has a
            `server_name`, connections use that name instead of the host's.
        :raises OSError: if a file cannot be used, and none could be before.
        """

    @property
    def policies(self) -> EffectivePolicies:
        """The current effective policies of the broker level. For any thread."""

    def resolve(self, topic: str) -> EffectivePolicies:
        """The effective policies of one topic. For any thread."""

    @property
    def factors(self) -> Factors:
        """The factors of all plugins."""

    @property
    def pressure_sources(self) -> Sequence[PressureSource]:
        """The pressure sources of all plugins; complete when tasks run."""

    @property
    def plugins_give_quotas(self) -> bool:
        """True if a plugin that is not built in has the hook `sluicegate_quota`."""

    def quota(self, principal: str) -> Quota | None:
        """What a principal may publish according to the plugins; None for no limit."""

    def apply(self, call: Callable[[], None]) -> None:
        """Schedule a call in the thread that owns the gates; returns immediately. For any thread.

        Changes of factors, switches and buckets must use this. Exceptions of the call are counted under the
        plugin's name.
        """

    def now_ns(self) -> int:
        """Monotonic time on the clock that checks use. For any thread."""

    def wall_ms(self) -> int:
        """Wall-clock milliseconds since 1970. For any thread."""

    @property
    def log(self) -> Logger:
        """The gateway's log under the plugin's name. For any thread."""

    @property
    def metrics(self) -> Metrics:
        """Metrics to publish. For any thread."""

    def remember(self, key: str, value: str) -> None:
        """Keep a small fact across restarts. For any thread.

        `sluicegate explain` shows facts under `adaptive.`, which are JSON; `factor.` is reserved.
        """

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix. For any thread."""
