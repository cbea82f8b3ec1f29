"""An admin API that answers as Pulsar 4.2.4 did, from a thread of its own."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote

RATE = {
    "dispatchThrottlingRateInMsg": 10,
    "dispatchThrottlingRateInByte": 2048,
    "relativeToPublishRate": False,
    "ratePeriodInSecond": 1,
}
NAMESPACE = {
    "auth_policies": {"namespace_auth": {}, "destination_auth": {}, "subscription_auth_roles": {}},
    "replication_clusters": ["standalone"],
    "backlog_quota_map": {},
    "clusterDispatchRate": {"standalone": RATE},
    "topicDispatchRate": {"standalone": RATE, "another": {**RATE, "dispatchThrottlingRateInMsg": 99}},
    "subscriptionDispatchRate": {},
    "replicatorDispatchRate": {},
    "publishMaxMessageRate": {
        "standalone": {"publishThrottlingRateInMsg": 10, "publishThrottlingRateInByte": -1}
    },
    "deleted": False,
    "delayed_delivery_policies": {"tickTime": 1000, "active": False, "maxDeliveryDelayInMillis": 0},
    "max_producers_per_topic": 5,
    "max_consumers_per_topic": 0,
    "max_topics_per_namespace": 40,
    "properties": {},
}
CONFIGURATION = {
    "clusterName": "standalone",
    "topicLevelPoliciesEnabled": "true",
    "maxMessageSize": "5242880",
    "maxProducersPerTopic": "0",
    "maxUnackedMessagesPerConsumer": "50000",
    "maxUnackedMessagesPerSubscription": "200000",
    "maxPublishRatePerTopicInMessages": "0",
    "delayedDeliveryEnabled": "true",
    "delayedDeliveryMaxDelayInMillis": "86400000",
}
OF_T1 = {
    "maxProducers": 7,
    "dispatchRate": {**RATE, "dispatchThrottlingRateInMsg": 100, "ratePeriodInSecond": 2},
    "delayedDelivery": {"tickTime": 1000, "active": True, "maxDeliveryDelayInMillis": 5000},
}
ANSWERS: dict[str, Any] = {
    "brokers/configuration/runtime": CONFIGURATION,
    "tenants": ["public"],
    "namespaces/public": ["public/default"],
    "namespaces/public/default": NAMESPACE,
    "persistent/public/default": [
        "persistent://public/default/__change_events",
        "persistent://public/default/p1-partition-0",
        "persistent://public/default/p1-partition-1",
        "persistent://public/default/t1",
    ],
    "persistent/public/default/partitioned": ["persistent://public/default/p1"],
    **{f"persistent/public/default/t1/{name}": policy for name, policy in OF_T1.items()},
}
"""By path. Any other policy of a topic is not set, which an empty answer says."""


@contextmanager
def recorded_api(answers: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Serve answers: the URL, and the paths that were asked for. A status is that of an error."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path).removeprefix("/admin/v2/")
            asked.append(path)
            answer = answers.get(path, b"")
            status = answer if isinstance(answer, HTTPStatus) else 200
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()
