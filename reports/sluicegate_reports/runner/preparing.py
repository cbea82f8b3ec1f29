"""Creates topics on the brokers themselves before the clients start, never through a gateway."""

from collections.abc import Mapping
from pkgutil import resolve_name

from sluicegate_reports.registry import kinds
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Broker
from sluicegate_reports.runner.doors.native_pulsar import topic_path
from sluicegate_reports.runner.scenario import Scenario


async def prepare_topics(broker: Broker, scenario: Scenario, names: Mapping[str, str]) -> None:
    """Create an arm's topics; stand-ins create their own.

    :param names: full names by the scenario's names.
    :raises UnavailableError: if the broker refuses.
    """
    prepare = kinds()[broker.system].prepare
    if prepare and not broker.embedded:
        await resolve_name(prepare)(broker, scenario, names)


async def kafka(broker: Broker, scenario: Scenario, names: Mapping[str, str]) -> None:
    """As `prepare_topics`, on Kafka."""
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.errors import KafkaError, TopicAlreadyExistsError

    wanted = [NewTopic(names[each.name], each.partitions, 1) for each in scenario.topics]
    admin = AIOKafkaAdminClient(bootstrap_servers=list(broker.addresses))
    try:
        await admin.start()
        try:
            response = await admin.create_topics(wanted)
            for topic, code, text in (tuple(each)[:3] for each in response.topic_errors):
                # An attempt whose answer was lost may have made it.
                if code not in (0, TopicAlreadyExistsError.errno):
                    raise UnavailableError(f"Kafka does not make topic {topic!r}: error {code} {text}")
        finally:
            await admin.close()
    except KafkaError as error:
        raise UnavailableError(f"Kafka does not make topics: {type(error).__name__}: {error}") from None


async def danube(broker: Broker, scenario: Scenario, names: Mapping[str, str]) -> None:
    """As `prepare_topics`, on Danube."""
    from sluicegate_reports.runner.clients.base import RefusedError
    from sluicegate_reports.runner.clients.danube import make_topics

    try:
        await make_topics(broker.addresses[0], names.values())
    except RefusedError as error:
        raise UnavailableError(f"Danube does not make topics: {error}") from None


async def pulsar(broker: Broker, scenario: Scenario, names: Mapping[str, str]) -> None:
    """As `prepare_topics`, on Pulsar; if its admin API is unknown, the first clients create them."""
    import httpx

    admin, namespaces = broker.admin, {each.namespace for each in scenario.topics}
    if not admin:
        return
    try:
        async with httpx.AsyncClient(base_url=admin, timeout=30, follow_redirects=True) as http:
            paths = [f"/admin/v2/namespaces/public/{name}" for name in namespaces if name != "default"]
            for path in [*paths, *(f"/admin/v2{topic_path(topic)}" for topic in names.values())]:
                response = await http.put(path)
                if response.is_error and response.status_code != httpx.codes.CONFLICT:
                    raise UnavailableError(
                        f"Pulsar does not make {path}: {response.status_code} {response.text}"
                    )
    except httpx.HTTPError as error:
        raise UnavailableError(f"Pulsar's admin API at {admin}: {type(error).__name__}: {error}") from None
