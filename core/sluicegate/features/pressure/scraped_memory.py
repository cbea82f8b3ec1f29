"""Memory usage from a broker's metrics in Prometheus' text format."""

import ssl

from sluicegate.features.pressure.text_format import Selector, total
from sluicegate.host.http_get import http_get, shown_url

JVM_HEAP = (
    ('jvm_memory_used_bytes{area="heap"}', 'jvm_memory_max_bytes{area="heap"}'),
    ('jvm_memory_bytes_used{area="heap"}', 'jvm_memory_bytes_max{area="heap"}'),
    ("java_lang_Memory_HeapMemoryUsage_used", "java_lang_Memory_HeapMemoryUsage_max"),
    ("java_lang_memory_heapmemoryusage_used", "java_lang_memory_heapmemoryusage_max"),
)
"""Series of the used and maximum heap of a JVM: from Prometheus' Java client since 1.0 and before (Pulsar),
and from the JMX exporter without rules and with lower-case names (Kafka)."""


class MetricsError(Exception):
    """A response lacks the required series."""


class MetricsMemory:
    """Reads memory usage from metrics.

    :param url: URL of the metrics.
    :param used: series of the bytes in use; a JVM's heap if None.
    :param most: series of the maximum in bytes.
    :param token: bearer token.
    :param timeout_s: timeout of a request.
    :param tls: TLS context for `https:` URLs; the system's defaults if None.
    :raises ValueError: if a name of a series is malformed.
    """

    def __init__(
        self,
        url: str,
        used: str | None = None,
        most: str | None = None,
        *,
        token: str | None = None,
        timeout_s: float = 2.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        names = ((used, most),) if used is not None and most is not None else JVM_HEAP
        self._names = tuple((Selector.parse(a), Selector.parse(b)) for a, b in names)
        self._url = url
        self._token = token
        self._timeout_s = timeout_s
        self._tls = tls

    async def read(self) -> float:
        """Memory in use as a fraction of the maximum; 0.0 if there is no maximum.

        :raises HttpError: if the response is late, too large or an error.
        :raises MetricsError: if the response has no such series.
        """
        response = await http_get(self._url, timeout_s=self._timeout_s, token=self._token, tls=self._tls)
        text = response.decode("utf-8", errors="replace")
        for used, most in self._names:
            in_use, bound = total(text, used), total(text, most)
            if in_use is not None and bound is not None:
                return in_use / bound if bound > 0 else 0.0
        raise MetricsError(f"{shown_url(self._url)} has none of {', '.join(a.name for a, _ in self._names)}")
