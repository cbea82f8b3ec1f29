"""The Java clients of the matrix: programs that talk in lines, as `tests/matrix/clients/serving.py` does."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.kafka.real.support.broker import archived_kafka
from tests.pulsar.real.support.broker import archived_pulsar
from tests.real.java import compile_java, frugal_jvm

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.pulsar import LOGGING as PULSAR_LOGGING
from sluicegate_reports.runner.brokers.pulsar import OPENED

_HERE = Path(__file__).parent
_KAFKA_LOGGING = _HERE.parents[1] / "kafka" / "real" / "support" / "log4j2.properties"
_JVM = frugal_jvm(256)


@cache
def kafka_program(directory: Path) -> Sequence[str]:
    """Compile the program with Kafka's Java client, and give its command.

    :param directory: for its classes.
    """
    classpath = _compiled("KafkaClients", jars.classpath(jars.KAFKA), directory)
    return (
        jars.java(),
        *_JVM,
        *archived_kafka(),
        f"-Dlog4j2.configurationFile={_KAFKA_LOGGING}",
        "-cp",
        classpath,
        "KafkaClients",
    )


@cache
def pulsar_program(directory: Path) -> Sequence[str]:
    """As `kafka_program`, with Pulsar's Java client."""
    classpath = _compiled("PulsarClients", jars.classpath(jars.PULSAR), directory)
    logging = (f"-Dlog4j2.configurationFile={PULSAR_LOGGING}", "-Dsluicegate.log.level=error")
    opened = (f"--add-opens={package}=ALL-UNNAMED" for package in OPENED)
    machine = (*_JVM, "-XX:MaxDirectMemorySize=256m", *archived_pulsar())
    return (jars.java(), *machine, *logging, *opened, "-cp", classpath, "PulsarClients")


def _compiled(name: str, classpath: str, directory: Path) -> str:
    classes = directory / "classes"
    sources = [_HERE / f"{name}.java", _HERE / "Lines.java"]
    return compile_java(classpath, classes, *sources)
