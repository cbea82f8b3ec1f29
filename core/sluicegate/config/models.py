"""Models of the configuration file. Broker rooms subclass `BrokerConfig`, plugins `PolicyModel`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import quote

from pydantic import Field, field_validator, model_validator

from sluicegate.config.admin_section import Admin as Admin
from sluicegate.config.budgets_section import Budgets as Budgets
from sluicegate.config.budgets_section import UrlOrBudgets
from sluicegate.config.known_brokers import AddressPatterns
from sluicegate.config.overload import OverloadConfig
from sluicegate.config.pressure_section import PressureConfig
from sluicegate.config.rollout_section import Rollout as Rollout
from sluicegate.config.storage import StorageConfig
from sluicegate.config.strict import Strict as Strict
from sluicegate.config.tenants import TenantQuota
from sluicegate.config.tls_models import BrokerTls as BrokerTls
from sluicegate.config.tls_models import ClientTls as ClientTls
from sluicegate.config.tls_models import Tls as Tls
from sluicegate.config.units import (
    ByteRate,
    Count,
    Duration,
    Host,
    HostPort,
    ListenPort,
    MessageRate,
    Share,
    Size,
    StorageSize,
    refuse,
)
from sluicegate.config.units import Workers as Workers
from sluicegate.model import Level

OnLimit: TypeAlias = Literal["delay", "reject", "drop"]
OnUnknown: TypeAlias = Literal["pause", "open", "last"]
FirstPort: TypeAlias = Annotated[int, Field(ge=1, le=65_535, strict=True)]
"""The first of a range of ports."""


class Contradiction(NamedTuple):
    """Fields whose values conflict."""

    field: str
    """The field that the error points at."""
    problem: str
    remedy: str


class PolicyModel(Strict):
    """Policy fields that a plugin adds to every level.

    Every field is optional with the default None: None is unset and inherits, 0 is unlimited. The class
    variables describe the fields, so that the file can be checked before it is applied.
    """

    aliases: ClassVar[Mapping[str, str]] = {}
    """Alternative names in the file, such as `max_publish_rate_msg`: canonical name by alias."""
    on_limit_actions: ClassVar[Mapping[str, tuple[OnLimit, ...]]] = {}
    """Valid values of `on_limit` by policy name; other policies have no `on_limit`."""
    on_unknown_policies: ClassVar[frozenset[str]] = frozenset()
    """Policies that have `on_unknown`, because they depend on data that can be missing."""
    parameters: ClassVar[frozenset[str]] = frozenset()
    """Fields that only shape other policies (`burst_seconds`): no `mode`, no ceiling."""
    whole_topic: ClassVar[frozenset[str]] = frozenset()
    """Policies that apply to all users of a topic: they cannot have a canary or a scope."""
    unscoped: ClassVar[frozenset[str]] = frozenset()
    """Further fields that cannot have a scope, besides `whole_topic` and `broker_only`: sessions go by them
    before they know whose operation it is."""
    scoped_by_groups: ClassVar[frozenset[str]] = frozenset()
    """Policies whose scopes can name subscriptions only: what they count has no principal and no client."""
    broker_only: ClassVar[frozenset[str]] = frozenset()
    """Fields that apply to a whole broker; namespaces and topics refuse them, also in `ceiling` and
    `on_unknown`."""
    defaults: ClassVar[Mapping[str, int | float | str | bool]] = {}
    """Values of fields that no level sets; other fields are then unlimited."""
    described_by: ClassVar[tuple[type["PolicyModel"], ...]] = ()
    """Models with fields of the same names, for a model that is made at run time."""

    @classmethod
    def contradictions(cls, values: Mapping[str, int | float | str | bool]) -> Iterable[Contradiction]:
        """Find fields whose values conflict, such as a low watermark above the high one.

        Called for the broker level, when the file is read and before the store is changed. File and store
        can still conflict later, as each changes without the other. The readers of the fields then keep the
        values that were in effect before.

        :param values: the effective values including defaults, by canonical name.
        """
        return ()

    @model_validator(mode="before")
    @classmethod
    def _take_aliases(cls, data: object) -> object:
        if not isinstance(data, dict) or cls.aliases.keys().isdisjoint(data):
            return data
        renamed = dict(data)
        for alias, name in cls.aliases.items():
            if alias in renamed:
                if name in renamed:
                    raise refuse(f"{alias!r} and {name!r} are the same field", "keep one of them")
                renamed[name] = renamed.pop(alias)
        return renamed


class Listen(Strict):
    """Where clients connect."""

    host: Host = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all."""
    port: ListenPort
    """Port that clients know; 0 takes a free one."""


class Exempt(Strict):
    """Principals that are exempt from counts, rates and factors."""

    principals: tuple[str, ...] = ()
    """Authenticated principals, exactly as the broker names them; never a client id."""
    policies: tuple[str, ...] = ()
    """Further policies that they skip: max_message_size, fixed_delivery_delay."""


class NamedQuota(Strict):
    """The publish quota of one principal over all topics of a broker."""

    principal: str = Field(min_length=1)
    """Principal, exactly as the broker names it."""
    messages: MessageRate = 0
    """Messages per second; 0 is unlimited."""
    bytes: ByteRate = 0
    """Bytes per second; 0 is unlimited."""


@dataclass(frozen=True, slots=True)
class Ports:
    """A range of ports that a broker's entry uses."""

    host: str
    first: int
    count: int
    key: tuple[str, ...]
    """Key of the entry that sets the first port, such as `("listen", "port")`."""
    noun: str
    """Their purpose, for messages."""
    is_certain: bool = True
    """False if the brokers' ids, unknown before connecting, decide which of these ports are used."""


class BrokerConfig(Strict):
    """The keys common to all broker entries; a broker room subclasses it with `system: Literal["kafka"]`."""

    policy_defaults: ClassVar[Mapping[str, int | float | str | bool]] = {}
    """Values of unset fields on this kind of broker; they take precedence over `PolicyModel.defaults`."""
    alpn: ClassVar[tuple[str, ...]] = ()
    """Protocol names to negotiate with ALPN on both sides; empty for protocols that do not use it."""
    refuses_paused_producers: ClassVar[bool] = False
    """True if a new producer is refused while publishing is paused; otherwise its messages wait."""
    storage_sources: ClassVar[frozenset[str]] = frozenset({"path", "prometheus"})
    """Valid values of `storage.source` for this kind of broker."""
    publishes_snapshots: ClassVar[bool] = False
    """True for kinds of broker that support `storage.publish_snapshots`."""
    client_keys: ClassVar[frozenset[str]] = frozenset({"gate_memory", "max_hold", "quotas"})
    """Keys by which a client's own process decides; the admin API shows them with the policies."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    """Name of this broker in metrics and logs: letters, digits, `.`, `_` and `-`."""
    system: str
    """Kind of broker, as its plugin names it: kafka."""
    bootstrap: tuple[HostPort, ...] = Field(min_length=1)
    """Brokers to connect to, host:port, tried in turn."""
    listen: Listen = Field(default_factory=lambda: Listen(port=0))
    """Where clients connect; a gateway needs it, clients and interceptors that apply the policies do not."""
    advertised_host: Host | None = None
    """Host that the gateway advertises to clients; the listening host if unset."""
    tls: Tls = Tls()
    """TLS towards clients and towards the broker."""
    workers: Workers = 1
    """Processes that serve clients of this broker: 1 to 64, or `auto` for one for each core."""
    max_connections: Count = 0
    """Client connections at once; 0 for as many as file descriptors allow."""
    address_share: Share = 0.9
    """Share of `max_connections` that clients of one address may take together."""
    principal_share: Share = 0.9
    """Share of `max_connections` that one authenticated principal may take."""
    login_timeout: Duration = 30_000
    """A client must have sent its first request, and be logged in, within this time after connecting; 0 for
    no limit."""
    max_hold: Duration = 10_000
    """Longest time a request is held back; keep it below your clients' time-outs."""
    idle_timeout: Duration = 600_000
    """Connections without any traffic are closed after this time; 0 for never."""
    frame_timeout: Duration = 30_000
    """A client that began a frame must finish it within this time; 0 for no limit."""
    max_frame_bytes: Size = Field(default=104_857_600, gt=0)
    """Largest frame accepted from a client; larger ones end its connection."""
    buffer_budget: Size = Field(default=268_435_456, gt=0)
    """Bytes that all connections of this broker may hold back together."""
    gate_memory: Size = Field(default=268_435_456, ge=1_048_576)
    """Memory for the compiled policies of topics in use, 8 KiB for each; policies of further topics are
    compiled again at each use."""
    loop_hold_warning: Duration = 100
    """A callback that blocks the worker's event loop for this long is reported in the log and in a metric; 0
    for never."""
    overload: OverloadConfig = OverloadConfig()
    """What the worker does when its own memory runs short."""
    exempt: Exempt = Exempt()
    """Principals that skip counts, rates and factors."""
    pressure: PressureConfig = PressureConfig()
    """Where the broker's load is read."""
    storage: StorageConfig | None = None
    """Where the usage of the broker's volumes is read, for storage quotas."""
    drift_interval: Duration = 300_000
    """How often a worker asks the broker for its own limits, for the metric `sluicegate_drift`; 0 for
    never."""
    quotas: tuple[NamedQuota, ...] = ()
    """Quotas of single principals, instead of `principal_publish_quota`."""
    tenant_quotas: tuple[TenantQuota, ...] = ()
    """Quotas of tenants: sets of namespaces and principals that share one budget."""
    observe_only: bool = Field(default=False, strict=True)
    """Compute and record everything, apply nothing."""

    @field_validator("quotas")
    @classmethod
    def _unique_principals(cls, quotas: tuple[NamedQuota, ...]) -> tuple[NamedQuota, ...]:
        for name, count in Counter(quota.principal for quota in quotas).items():
            if count > 1:
                raise refuse(f"principal {name!r} has two quotas", "keep one of them")
        return quotas

    @field_validator("tenant_quotas")
    @classmethod
    def _unique_tenants(cls, tenants: tuple[TenantQuota, ...]) -> tuple[TenantQuota, ...]:
        for name, count in Counter(tenant.name for tenant in tenants).items():
            if count > 1:
                raise refuse(f"tenant {name!r} has two quotas", "keep one of them")
        return tenants

    @field_validator("storage")
    @classmethod
    def _storage_source_is_supported(cls, value: StorageConfig | None) -> StorageConfig | None:
        if value is not None and value.source not in cls.storage_sources:
            known = " or ".join(sorted(cls.storage_sources))
            raise refuse(f"source {value.source} is supported for Kafka only", f"write source: {known}")
        if value is not None and value.publish_snapshots and not cls.publishes_snapshots:
            raise refuse("'publish_snapshots' is supported for Kafka only", "remove it")
        return value

    @property
    def has_listener(self) -> bool:
        """Whether a gateway can serve the entry."""
        return "listen" in self.model_fields_set

    @property
    def client_host(self) -> str:
        """The host that is advertised to clients."""
        return self.advertised_host or self.listen.host

    def writes_out(self, host: str, port: int) -> bool:
        """Whether the entry names this broker by its own address, and not only by a pattern."""
        return (host.lower(), port) in [(each.host.lower(), each.port) for each in self.bootstrap]

    def ports(self) -> Iterator[Ports]:
        """The ports that the gateway listens on for this entry; subclasses add more."""
        yield Ports(self.listen.host, self.listen.port, 1, ("listen", "port"), "the listener")

    def tls_sections(self) -> Iterator[tuple[tuple[str, ...], ClientTls | BrokerTls]]:
        """Sections that refer to TLS files, each with its key path below the entry."""
        if self.tls.client is not None:
            yield ("tls", "client"), self.tls.client
        if self.tls.broker is not None:
            yield ("tls", "broker"), self.tls.broker
        if self.storage is not None and self.storage.ca is not None:
            yield ("storage",), BrokerTls(ca=self.storage.ca)

    def rule_of_names(self, level: Level, name: str) -> str:
        """The naming rule that a topic or namespace name of this broker violates.

        :param level: NAMESPACE or TOPIC.
        :param name: as in the file; `*` stands for any characters.
        :return: empty if the name is possible, or if that is not certain.
        """
        return ""

    def rule_of_principals(self, name: str) -> str:
        """How to write a principal that no client of this broker can have; empty if one can have it."""
        return ""


class NodePortsConfig(BrokerConfig):
    """An entry whose broker nodes each have a gateway port of their own, besides the bootstrap port."""

    node_port_base: FirstPort | None = None
    """First of the ports for single broker nodes; the listening port + 1 if unset."""
    known_brokers: tuple[str, ...] = ()
    """Brokers that clients may be sent to besides `bootstrap`: host:port, `*` for any part of a name."""

    def writes_out(self, host: str, port: int) -> bool:
        """Whether the file writes out an address, also in `known_brokers` if its host has no `*` there."""
        names = (name for name in self.known_brokers if "*" not in (name.rpartition(":")[0] or name))
        return super().writes_out(host, port) or AddressPatterns(names).match(host, port)

    @property
    def first_node_port(self) -> int:
        """The first of the ports for single broker nodes."""
        return self.node_port_base if self.node_port_base is not None else self.listen.port + 1

    @property
    def advertises_nodes(self) -> bool:
        """Whether addresses of single broker nodes are advertised to clients."""
        return True

    @model_validator(mode="after")
    def _first_node_port_is_known(self) -> Self:
        """With an ephemeral listening port, the default of the next port is not known."""
        is_known = self.listen.port or self.node_port_base is not None
        if self.has_listener and self.advertises_nodes and not is_known:
            raise refuse(
                "'listen.port' is 0, so the ports of single brokers have no default",
                "set 'node_port_base' to the first of a range of free ports, or 'listen.port' to a port",
            )
        return self


class Decisions(Strict):
    """The decision log."""

    directory: str | None = None
    """Where Parquet files go; `<state_dir>/decisions` if unset."""
    enabled: bool = Field(default=True, strict=True)
    """False writes no files; counters continue."""
    detail: Literal["summary", "full"] = "summary"
    """full: a row for every allow too; summary: allows in windows of 100 ms."""
    retention_size: StorageSize = 4 << 30
    """Total size of the kept Parquet files; the oldest are deleted first. 0 for no bound."""
    retention_age: Duration = 30 * 86_400_000
    """How long a Parquet file is kept; 0 for ever."""
    max_rows_queued: Count = Field(default=65_536, gt=0)
    """Rows that can wait to be written; further rows are dropped and counted."""


class Log(Strict):
    """The gateway's own log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest severity that is logged."""
    format: Literal["text", "json"] = "text"
    """json: one object a line."""
    sustained_after: Duration = 10_000
    """Rate limiting that lasts this long is a warning."""
    slow_plugin_call: Duration = 5
    """A plugin call that blocks all clients for this long is a warning; 0 for never."""
    repeats: Count = 10
    """How often a line of the same text is written in one repeat_window; further ones are only counted. 0
    writes all."""
    repeat_window: Duration = Field(default=60_000, gt=0)
    """After this time the number of suppressed lines is logged."""


class GatewayConfig(Strict):
    """The whole file except its policies, which are loaded into policy layers."""

    brokers: tuple[BrokerConfig, ...] = Field(min_length=1)
    """Brokers behind the gateway."""
    plugins: tuple[str, ...] = ()
    """Importable modules to load as plugins, in this order."""
    state_dir: str = Field(default="var/sluicegate", min_length=1)
    """Directory for everything that the gateway stores."""
    store: str | None = None
    """URL of the policy store: sqlite:///PATH, etcd://HOST:2379/PREFIX, etcds:// for TLS, or memory:;
    `sqlite:///<state_dir>/policies.db` if unset."""
    budgets: UrlOrBudgets | None = None
    """The store by which several gateways share limits: its URL, or a section. Without it each gateway has
    its limits for itself."""
    rollout: Rollout = Rollout()
    """How policies are rolled out."""
    decisions: Decisions = Decisions()
    """The decision log."""
    admin: Admin = Admin()
    """The administrative HTTP endpoint."""
    log: Log = Log()
    """The gateway's own log."""
    orphan_timeout: Duration = 300_000
    """How long a worker continues to serve after its supervisor was killed, unless another worker replaces
    it; then it drains and exits. 0 for ever."""
    worker_timeout: Duration = 30_000
    """A worker whose event loop does not respond for this long, 1s or more, is ended and started again; 0 for
    never."""
    decision_id_in_errors: bool = Field(default=True, strict=True)
    """Append ` [sluicegate ID]` to refusals, for `sluicegate explain ID`."""

    @field_validator("worker_timeout")
    @classmethod
    def _leaves_time_to_respond(cls, milliseconds: int) -> int:
        if 0 < milliseconds < 1_000:
            remedy = "write a unit, such as 30s; a bare number is milliseconds"
            raise refuse("a worker that is only busy would be ended: at least 1s", remedy)
        return milliseconds

    @property
    def store_url(self) -> str:
        """URL of the policy store, with the default filled in."""
        return self.store or f"sqlite:///{quote(self.state_dir)}/policies.db"
