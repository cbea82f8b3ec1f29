"""Names of the arms; those that several brokers have are the same kind of thing in front of each."""

DIRECT = "direct"
HAPROXY = "haproxy"
SLUICEGATE = "sluicegate"
"""With three active policies: message size, publish rate far above the load, producers per topic."""

KROXYLICIOUS = "kroxylicious"
STRIMZI = "strimzi"
ENGINE = "engine"
"""No way to a broker: the scenario measures the engine in this process."""

PULSAR_PROXY = "pulsar-proxy"
SLUICEGATE_DELAY = "sluicegate-delay"
"""With a fixed delivery delay besides, for which every message is rewritten."""
SLUICEGATE_DISPATCH = "sluicegate-dispatch"
"""With dispatch rates besides, far above the load."""

NGINX = "nginx"
ENVOY = "envoy"
GRPC_AIO = "grpc-aio"
"""A generic proxy on grpc.aio: every call ended and made anew."""

SPARK = "spark"
"""The comparison's own job; the two others run the same queries in their own words."""
DUCKDB = "duckdb"
POLARS = "polars"
