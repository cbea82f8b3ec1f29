"""The fixtures, on a real broker with nothing in between."""

from collections import Counter

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.broker import PulsarBroker, Tls
from tests.pulsar.real.support.family import EVERY_FORM, Family, Form, Subscription, collect, numbered
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.python import PythonFamily, read_topic


@pytest.mark.parametrize(("family", "form"), EVERY_FORM, indirect=["family"])
def test_messages_of_every_kind_arrive(
    pulsar: PulsarBroker, new_topic: NewTopic, family: Family, form: Form
) -> None:
    topic = new_topic()
    pad = 0 if form is not Form.CHUNKED else 3_000 if family.name == "java" else 6_000_000
    values = numbered(2 if pad else 20, pad=pad)
    published = family.produce(pulsar.service_url, topic, values, form=form).close()
    assert [one.value for one in published if one.entry] == values
    consumer = family.consume(pulsar.service_url, topic, "all")
    received = collect(consumer, len(values))
    consumer.close()
    assert sorted(one.value for one in received) == sorted(values)
    entries = len({one.entry for one in received})
    assert (entries < len(values)) == (form in {Form.BATCHED, Form.COMPRESSED})


@pytest.mark.longer(but="python")
@pytest.mark.parametrize("kind", list(Subscription))
def test_every_subscription_type(
    pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, family: Family, kind: Subscription
) -> None:
    topic, values = new_topic(), numbered(10)
    family.produce(pulsar.service_url, topic, values, keys=["a", "b"], properties={"p": "q"}).close()
    consumer = family.consume(pulsar.service_url, topic, "one", kind, nacks=1)
    collect(consumer, 11)
    assert admin.stats(topic)["subscriptions"]["one"]["type"] == kind
    consumer.close()
    received = consumer.received
    times = Counter(one.value for one in received)
    assert set(times) == set(values)
    # Shared subscriptions give again what was refused; the others all from there on.
    assert times[received[0].value] > 1
    assert {one.key for one in received} == {"a", "b"}
    assert received[0].properties == {"p": "q"}


@pytest.mark.longer(but="python")
def test_a_delay_requested_by_the_client(
    pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    consumer = family.consume(pulsar.service_url, topic, "late")
    [sent] = family.produce(pulsar.service_url, topic, ["x"], deliver_after_ms=1_000).close()
    [received] = collect(consumer, 1)
    consumer.close()
    assert sent.entry is not None
    assert received.at_ms - received.published_ms >= 1_000
    assert "x-pulsar-deliver-at-time" in admin.entry_headers(topic, *sent.entry)


def test_tls_ports(pulsar: PulsarBroker, tls: Tls, new_topic: NewTopic, python: PythonFamily) -> None:
    topic, values = new_topic(), numbered(5)
    trusted = {"tls_trust_certs_file_path": str(tls.authority.certificate)}
    python.produce(tls.service_url, topic, values, client=trusted).close()
    assert [one.value for one in read_topic(pulsar.service_url, topic)] == values


@pytest.mark.longer
def test_confirmed_messages_survive_a_killed_broker(
    own_pulsar: PulsarBroker, python: PythonFamily, java: JavaFamily
) -> None:
    topic = "persistent://public/default/durable"
    values = numbered(50, "python") + numbered(50, "java")
    python.produce(own_pulsar.service_url, topic, values[:50]).close()
    java.produce(own_pulsar.service_url, topic, values[50:]).close()
    pid = own_pulsar.child.pid
    own_pulsar.kill()
    own_pulsar.start()
    assert own_pulsar.child.pid != pid
    assert [one.value for one in read_topic(own_pulsar.service_url, topic)] == values
