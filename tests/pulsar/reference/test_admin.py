"""The admin API answers a gateway as Pulsar's would."""

from collections.abc import Iterator

import httpx
import pytest
from tests.pulsar.reference.lab import TOPIC
from tests.pulsar.reference.running import Running, client, running
from tests.waiting import LONG_S

from sluicegate_pulsar.reference import Settings
from sluicegate_pulsar.reference.topic_names import parse_name

PATH = "/admin/v2/persistent/public/default/orders"


@pytest.fixture
def web(own_broker: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=own_broker.admin_url, timeout=LONG_S) as made:
        yield made


def test_lists_brokers(web: httpx.Client, own_broker: Running) -> None:
    assert web.get("/admin/v2/clusters").json() == ["reference"]
    here = [own_broker.admin_url.removeprefix("http://")]
    assert web.get("/admin/v2/brokers/reference").json() == web.get("/admin/v2/brokers").json() == here
    assert web.get("/admin/v2/brokers/health").text == "ok"
    told = web.get("/admin/v2/brokers/configuration/runtime").json()
    assert told["isDelayedDeliveryDeliverAtTimeStrict"] == "true"
    assert told["delayedDeliveryTickTimeMillis"] == "100"


def test_looks_topics_up(web: httpx.Client, own_broker: Running) -> None:
    found = web.get("/lookup/v2/topic/persistent/public/default/orders").json()
    assert found["brokerUrl"] == found["nativeUrl"] == own_broker.service_url
    assert found["httpUrl"] == own_broker.admin_url
    assert "brokerUrlSsl" in found


def test_lists_topics_and_subscriptions(web: httpx.Client, own_broker: Running) -> None:
    assert web.get(f"{PATH}/subscriptions").status_code == 404
    with client(own_broker) as made:
        consumers = [made.subscribe(TOPIC, name) for name in ("b", "a")]
        assert web.get(f"{PATH}/subscriptions").json() == ["a", "b"]
        consumers[0].unsubscribe()
        assert web.get(f"{PATH}/subscriptions").json() == ["a"]
    assert web.get("/admin/v2/persistent/public/default").json() == [TOPIC]
    assert web.get("/admin/v2/non-persistent/public/default").json() == []


def test_creates_partitioned_topics(web: httpx.Client, own_broker: Running) -> None:
    assert web.get(f"{PATH}/partitions").status_code == 404
    assert web.get(f"{PATH}/partitions?checkAllowAutoCreation=true").json() == {"partitions": 0}
    assert web.put(f"{PATH}/partitions", json=2).status_code == 204
    assert web.put(f"{PATH}/partitions", json=2).status_code == 409
    assert web.put(f"{PATH}/partitions", json=0).status_code == 406
    assert web.get(f"{PATH}/partitions").json() == {"partitions": 2}
    with client(own_broker) as made:
        made.subscribe(TOPIC, "sub")
        assert web.get(f"{PATH}/subscriptions").json() == ["sub"]


@pytest.mark.parametrize("path", [PATH, "/admin/v2/namespaces/public/default"], ids=["topic", "namespace"])
def test_delayed_delivery(web: httpx.Client, own_broker: Running, path: str) -> None:
    path = f"{path}/delayedDelivery"
    own_broker.call(own_broker.reference.broker.topic, TOPIC)
    unset = web.get(path)
    assert (unset.status_code, unset.content) == (200, b"")
    posted = {
        "active": True,
        "tickTime": 50,
        "maxDeliveryDelayInMillis": 2_000,
        "fixedDeliveryDelayInMillis": 7,
    }
    answer = web.post(path, json=posted)
    assert (answer.status_code, answer.content) == (204, b"")
    # As Pulsar does: what it does not know it ignores without a word.
    assert web.get(path).json() == {"active": True, "tickTime": 50, "maxDeliveryDelayInMillis": 2_000}
    assert own_broker.reference.broker.delay_of(parse_name(TOPIC)).max_delay_ms == 2_000
    assert web.delete(path).status_code == 204
    assert web.get(path).content == b""
    assert own_broker.reference.broker.delay_of(parse_name(TOPIC)).max_delay_ms == 0
    web.post(path, json=posted)
    assert web.post(path).status_code == 204
    assert web.get(path).content == b""


def test_applied_delayed_delivery(web: httpx.Client) -> None:
    path = f"{PATH}/delayedDelivery?applied=true"
    assert web.get(path).status_code == 404
    assert web.put(PATH).status_code == 204
    assert web.get(path).json() == {"active": True, "tickTime": 100, "maxDeliveryDelayInMillis": 0}
    namespace = "/admin/v2/namespaces/public/default/delayedDelivery"
    web.post(namespace, json={"active": True, "maxDeliveryDelayInMillis": 5})
    assert web.get(path).json() == {"active": True, "tickTime": 100, "maxDeliveryDelayInMillis": 5}
    assert web.get(f"{PATH}/delayedDelivery").content == b""


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"active": "yes"}', b'{"maxDeliveryDelayInMillis": "1s"}'])
def test_refuses_malformed_policies(web: httpx.Client, body: bytes) -> None:
    web.put(PATH)
    answer = web.post(f"{PATH}/delayedDelivery", content=body)
    assert answer.status_code == 400
    assert answer.json()["reason"]
    assert web.get(f"{PATH}/delayedDelivery").content == b""


def test_accepts_the_documents_that_pulsar_accepts(web: httpx.Client, own_broker: Running) -> None:
    web.put(PATH)
    web.post(f"{PATH}/delayedDelivery", json={"active": 1, "tickTime": -1, "maxDeliveryDelayInMillis": -1})
    told = web.get(f"{PATH}/delayedDelivery").json()
    assert told == {"active": True, "tickTime": -1, "maxDeliveryDelayInMillis": -1}
    assert own_broker.reference.broker.topics[TOPIC].delay.tick_ms == 100


def test_creates_topics_once(web: httpx.Client) -> None:
    assert [web.put(PATH).status_code for _ in range(2)] == [204, 409]


def test_a_maximum_set_over_http_reaches_live_topics(web: httpx.Client, own_broker: Running) -> None:
    own_broker.call(own_broker.reference.broker.topic, TOPIC)
    web.post(f"{PATH}/delayedDelivery", json={"active": True, "maxDeliveryDelayInMillis": 5})
    assert own_broker.reference.broker.topics[TOPIC].delay.max_delay_ms == 5


def test_unloads(web: httpx.Client, own_broker: Running) -> None:
    assert web.put(f"{PATH}/unload").status_code == 404
    own_broker.call(own_broker.reference.broker.topic, TOPIC)
    assert web.put(f"{PATH}/unload").status_code == 204


def test_needs_a_token_if_the_broker_requires_one() -> None:
    with running(Settings(tokens={"secret": "alice"})) as broker, httpx.Client(timeout=LONG_S) as web:
        url = f"{broker.admin_url}/admin/v2/clusters"
        assert web.get(url).status_code == 401
        assert web.get(url, headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert web.get(url, headers={"Authorization": "Bearer secret"}).json() == ["reference"]


def test_wrong_names_and_paths(web: httpx.Client) -> None:
    assert web.get("/admin/v2/volatile/public/default/orders/subscriptions").status_code == 412
    assert web.get("/admin/v2/nothing").status_code == 404


def test_returns_the_backlog_of_the_slowest_subscription(web: httpx.Client, own_broker: Running) -> None:
    assert web.get(f"{PATH}/stats").status_code == 404
    with client(own_broker) as made:
        slow, quick = (made.subscribe(TOPIC, name) for name in ("slow", "quick"))
        producer = made.create_producer(TOPIC)
        for _ in range(3):
            producer.send(bytes(1000))
            quick.acknowledge(quick.receive())
        told = web.get(f"{PATH}/stats").json()
        assert 3000 < told["backlogSize"] < 3600  # with metadata
        assert told["subscriptions"]["slow"] == {"msgBacklog": 3}
        assert told["backlogQuotaLimitSize"] == -1  # none is set
        for _ in range(3):
            slow.acknowledge(slow.receive())
        slow.close()  # which sends the acknowledgements off
        quick.close()
        assert web.get(f"{PATH}/stats").json()["backlogSize"] == 0
    assert web.put(f"{PATH.replace('orders', 'parts')}/partitions", json=2).status_code == 204
    assert web.get(f"{PATH.replace('orders', 'parts')}/stats").status_code == 404
