"""The `pressure` section of a broker's entry: where the gateway reads the broker's load."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sluicegate.config.strict import Strict, refuse_keys_of_others
from sluicegate.config.units import HTTP_URL, Count, Duration, StorageSize, refuse

_MEMORY_KEYS = {"process": ("pid", "pidfile"), "metrics": ("url", "used", "max", "token")}
_SERIES = r"^[a-zA-Z_:][a-zA-Z0-9_:]*(\{.*\})?$"


class MemorySource(Strict):
    """One source of memory usage, as a share of a limit."""

    source: Literal["gateway", "process", "metrics"]
    """gateway: this gateway's own process. process: another process of this machine. metrics: an endpoint in
    Prometheus' text format, such as Pulsar's /metrics/ or a JMX exporter."""
    limit: StorageSize = 0
    """Sources gateway and process: bytes that count as all memory; 0 for the limit of the process's control
    group, or else the memory of the machine."""
    pid: Annotated[int, Field(gt=0, strict=True)] | None = None
    """Source process: its id."""
    pidfile: str | None = Field(default=None, min_length=1)
    """Source process: file with its id, read again each time."""
    url: str | None = Field(default=None, pattern=HTTP_URL)
    """Source metrics: address, such as http://broker:8080/metrics/."""
    used: str | None = Field(default=None, pattern=_SERIES)
    """Source metrics: series of the bytes in use, as jvm_memory_used_bytes{area="heap"}. If unset, the usual
    names of a JVM's heap are looked for."""
    max: str | None = Field(default=None, pattern=_SERIES)
    """Source metrics: series of the maximum in bytes."""
    token: str | None = Field(default=None, min_length=1, repr=False)
    """Source metrics: bearer token; better set by environment than in the file."""
    timeout: Duration = Field(default=2_000, gt=0)
    """Source metrics: timeout of one request."""

    @model_validator(mode="after")
    def _what_the_source_needs(self) -> "MemorySource":
        refuse_keys_of_others(self, self.source, _MEMORY_KEYS)
        if self.source == "process" and (self.pid is None) == (self.pidfile is None):
            raise refuse("source process needs either 'pid' or 'pidfile'", "set one of them")
        if self.source == "metrics" and self.url is None:
            raise refuse("source metrics needs 'url'", "add 'url: http://broker:8080/metrics/'")
        if (self.used is None) != (self.max is None):
            raise refuse("'used' and 'max' belong together", "set both, or neither for a JVM's heap")
        return self


class BacklogConfig(Strict):
    """How backlogs are read, and the quotas that they are compared with."""

    interval: Duration = Field(default=5_000, ge=100)
    """Time between two readings; the last one is used in between."""
    timeout: Duration = Field(default=2_000, gt=0)
    """Timeout of one request."""
    quota: StorageSize = 0
    """Backlog quota of each topic in bytes, unless the broker has its own; 0 for none."""
    quota_messages: Count = 0
    """The same in messages, for brokers that count only these (Danube); 0 for none."""
    urls: tuple[Annotated[str, Field(pattern=HTTP_URL)], ...] = ()
    """Danube: addresses of the brokers' metrics, http://broker:9040/metrics."""


class PressureConfig(Strict):
    """Where the broker's load is read, for adaptive publish throttling."""

    memory: tuple[MemorySource, ...] = (MemorySource(source="gateway"),)
    """The source with the highest usage counts."""
    backlog: BacklogConfig = BacklogConfig()
    """Backlogs of topics."""
