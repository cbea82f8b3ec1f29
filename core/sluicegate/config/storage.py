"""What a broker's entry may say about where the usage of its volumes is read."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sluicegate.config.strict import Strict
from sluicegate.config.units import Duration, refuse


class StorageConfig(Strict):
    """Where the usage of a broker's volumes is read, for storage quotas; the limits are policies."""

    source: Literal["path", "prometheus", "log_dirs", "snapshots"] = Field(
        description="path: file systems of this machine. prometheus: queries to a Prometheus server. "
        "log_dirs: Kafka's DescribeLogDirs. snapshots: a compacted Kafka topic."
    )
    interval: Duration = Field(default=60_000, ge=100, description="Time between two readings.")
    timeout: Duration = Field(default=3_000, gt=0, description="Longest time for one answer.")
    paths: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(), description="Source path: a directory on each volume."
    )
    broker_id: str = Field(
        default="local", min_length=1, description="Source path: id of the node that the paths belong to."
    )
    url: str | None = Field(
        default=None,
        pattern=r"^https?://[^/\s]+(/\S*)?$",
        description="Source prometheus: address of the server, such as http://prometheus:9090.",
    )
    token: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="Source prometheus: bearer token; better set by environment than in the file.",
    )
    ca: str | None = Field(
        default=None, description="Source prometheus: PEM file that signs the server; the system's if unset."
    )
    capacity_query: str | None = Field(
        default=None, min_length=1, description="Source prometheus: query for the bytes of each volume."
    )
    consumed_query: str | None = Field(
        default=None, min_length=1, description="Source prometheus: query for the bytes in use."
    )
    free_query: str | None = Field(
        default=None,
        min_length=1,
        description="Source prometheus: query for the free bytes, instead of those in use.",
    )
    broker_label: str = Field(
        default="instance", min_length=1, description="Source prometheus: label that tells nodes apart."
    )
    volume_label: str = Field(
        default="mountpoint", min_length=1, description="Source prometheus: label that tells volumes apart."
    )
    topic: str | None = Field(
        default=None, min_length=1, description="Source snapshots: compacted topic to read, keyed by node id."
    )
    publish_snapshots: str | None = Field(
        default=None, min_length=1, description="Compacted topic to publish what was read to; Kafka only."
    )
    brokers: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(),
        description="Nodes that must be known at all times. Without it: those that the cluster names, else "
        "those that were seen.",
    )
    forget_after: Duration = Field(
        default=3_600_000,
        description="Where no cluster names its nodes, how long one that is gone counts as unknown.",
    )

    @model_validator(mode="after")
    def _what_the_source_needs(self) -> "StorageConfig":
        for source, keys in _STORAGE_KEYS.items():
            extra = [key for key in keys if getattr(self, key)]
            if source != self.source and extra:
                raise refuse(
                    f"{extra[0]!r} is for source {source}, not for {self.source}",
                    f"take it away, or write source: {source}",
                )
        if self.source == "path" and not self.paths:
            raise refuse(
                "source path needs 'paths'", "name a directory on each volume: paths: [/var/lib/kafka]"
            )
        if self.source == "snapshots" and self.topic is None:
            raise refuse("source snapshots needs 'topic'", "name the compacted topic that brokers publish to")
        if self.source == "snapshots" and self.publish_snapshots is not None:
            raise refuse(
                "source snapshots has nothing of its own to publish",
                "take 'publish_snapshots' away, or measure with source log_dirs",
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
                "give one of them: bytes in use, or bytes free",
            )


_STORAGE_KEYS = {
    "path": ("paths",),
    "prometheus": ("url", "token", "ca", "capacity_query", "consumed_query", "free_query"),
    "snapshots": ("topic",),
}
"""Keys of `storage:` that only one source reads."""
