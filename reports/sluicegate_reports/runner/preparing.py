"""Creates topics on the brokers themselves before the clients start, never through a gateway."""

from collections.abc import Mapping

from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.runner.doors.base import Broker
from sluicegate_reports.runner.doors.native_pulsar import topic_path
from sluicegate_reports.runner.scenario import Scenario


async def prepare_topics(broker: Broker, scenario: Scenario, names: Mapping[str, str]) -> None:
    """Make an arm's topics; stand-ins make them themselves.

    :param names: full names by the scenario's names.
    :raises UnavailableError: if the broker refuses.
    """
    if broker.embedded:
        return
    if broker.system == "kafka":
        await _kafka(broker, {names[each.name]: each.partitions for each in scenario.topics})
    if broker.system == "danube":
        await _danube(broker, list(names.values()))
    if broker.system == "pulsar" and broker.admin:
        namespaces = {each.namespace for each in scenario.topics}
        await _pulsar(broker.admin, namespaces, list(names.values()))


async def _kafka(broker: Broker, wanted: Mapping[str, int]) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic
    from aiokafka.errors import KafkaError, TopicAlreadyExistsError

    admin = AIOKafkaAdminClient(bootstrap_servers=list(broker.addresses))
    try:
        await admin.start()
        try:
            answer = await admin.create_topics(
                [NewTopic(name, partitions, 1) for name, partitions in wanted.items()]
            )
            for topic, code, text in (tuple(each)[:3] for each in answer.topic_errors):
                if code not in (0, TopicAlreadyExistsError.errno):
                    raise UnavailableError(f"Kafka does not make topic {topic!r}: error {code} {text}")
        finally:
            await admin.close()
    except KafkaError as error:
        raise UnavailableError(f"Kafka does not make topics: {type(error).__name__}: {error}") from None


async def _danube(broker: Broker, wanted: list[str]) -> None:
    from sluicegate_reports.runner.clients import RefusedError
    from sluicegate_reports.runner.clients.danube import make_topics

    try:
        await make_topics(broker.addresses[0], wanted)
    except RefusedError as error:
        raise UnavailableError(f"Danube does not make topics: {error}") from None


async def _pulsar(admin: str, namespaces: set[str], wanted: list[str]) -> None:
    import httpx

    try:
        async with httpx.AsyncClient(base_url=admin, timeout=30, follow_redirects=True) as http:
            paths = [f"/admin/v2/namespaces/public/{name}" for name in namespaces if name != "default"]
            for path in [*paths, *(f"/admin/v2{topic_path(topic)}" for topic in wanted)]:
                answer = await http.put(path)
                if answer.is_error and answer.status_code != httpx.codes.CONFLICT:
                    raise UnavailableError(f"Pulsar does not make {path}: {answer.status_code} {answer.text}")
    except httpx.HTTPError as error:
        raise UnavailableError(f"Pulsar's admin API at {admin}: {type(error).__name__}: {error}") from None
