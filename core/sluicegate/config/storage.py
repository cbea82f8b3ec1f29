"""The `storage` section of a broker's entry: where the gateway reads the usage of volumes."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sluicegate.config.strict import Strict, refuse_keys_of_others
from sluicegate.config.units import HTTP_URL, Duration, refuse


class StorageConfig(Strict):
    """Where the usage of a broker's volumes is read, for storage quotas; the limits are policies."""

    source: Literal["path", "prometheus", "log_dirs", "snapshots"]
    """path: file systems of this machine. prometheus: queries to a Prometheus server. log_dirs: Kafka's
    DescribeLogDirs. snapshots: a compacted Kafka topic."""
    interval: Duration = Field(default=60_000, ge=100)
    """Time between two readings."""
    timeout: Duration = Field(default=3_000, gt=0)
    """Timeout of one request."""
    paths: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Source path: a directory on each volume."""
    broker_id: str = Field(default="local", min_length=1)
    """Source path: id of the node that owns the paths."""
    url: str | None = Field(default=None, pattern=HTTP_URL)
    """Source prometheus: address of the server, such as http://prometheus:9090."""
    token: str | None = Field(default=None, min_length=1, repr=False)
    """Source prometheus: bearer token; better set by environment than in the file."""
    ca: str | None = None
    """Source prometheus: PEM file with the authority of the server; the system's if unset."""
    capacity_query: str | None = Field(default=None, min_length=1)
    """Source prometheus: query for the bytes of each volume."""
    consumed_query: str | None = Field(default=None, min_length=1)
    """Source prometheus: query for the bytes in use."""
    free_query: str | None = Field(default=None, min_length=1)
    """Source prometheus: query for the free bytes, instead of those in use."""
    broker_label: str = Field(default="instance", min_length=1)
    """Source prometheus: label that identifies nodes."""
    volume_label: str = Field(default="mountpoint", min_length=1)
    """Source prometheus: label that identifies volumes."""
    topic: str | None = Field(default=None, min_length=1)
    """Source snapshots: compacted topic to read, keyed by node id."""
    publish_snapshots: str | None = Field(default=None, min_length=1)
    """Compacted topic to publish the readings to; Kafka only."""
    brokers: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Nodes whose usage must always be known. If unset: those that the cluster lists, or else those seen
    before."""
    forget_after: Duration = 3_600_000
    """How long a node that has disappeared counts as unknown, if no cluster lists its nodes."""

    @model_validator(mode="after")
    def _what_the_source_needs(self) -> "StorageConfig":
        refuse_keys_of_others(self, self.source, _STORAGE_KEYS)
        if self.source == "path" and not self.paths:
            raise refuse(
                "source path needs 'paths'", "name a directory on each volume: paths: [/var/lib/kafka]"
            )
        if self.source == "snapshots" and self.topic is None:
            raise refuse("source snapshots needs 'topic'", "name the compacted topic that brokers publish to")
        if self.source == "snapshots" and self.publish_snapshots is not None:
            raise refuse(
                "source snapshots has no readings of its own to publish",
                "remove 'publish_snapshots', or measure with source log_dirs",
            )
        if self.source == "prometheus":
            self._check_queries()
        return self

    def _check_queries(self) -> None:
        if self.url is None or self.capacity_query is None:
            missing = "url" if self.url is None else "capacity_query"
            raise refuse(f"source prometheus needs {missing!r}", f"add '{missing}:'")
        if (self.consumed_query is None) == (self.free_query is None):
            raise refuse(
                "source prometheus needs either 'consumed_query' or 'free_query'",
                "set one of them: bytes in use, or bytes free",
            )


_STORAGE_KEYS = {
    "path": ("paths",),
    "prometheus": ("url", "token", "ca", "capacity_query", "consumed_query", "free_query"),
    "snapshots": ("topic",),
}
"""Keys of `storage:` that only one source reads."""
