"""Jars of the brokers that are started here: what Maven fetched by the poms in `deploy/` (`make jars`)."""

import os
import shutil
from pathlib import Path

from sluicegate_reports.runner.brokers.processes import UnavailableError

KAFKA, PULSAR, STRIMZI = "kafka", "pulsar", "peers/strimzi-quotas"
"""Folders in `deploy/` with a pom."""
_FETCHED = "target/dependency"
_ELSEWHERE = {KAFKA: "SLUICEGATE_KAFKA_LIBS", PULSAR: "SLUICEGATE_PULSAR_LIBS"}
"""Variables that may name another folder with the jars of a pom."""


def java() -> str:
    """Path of the Java launcher.

    :raises UnavailableError: if there is none.
    """
    found = shutil.which("java")
    if found is None:
        raise UnavailableError("java is not installed; Java 17 or later is needed")
    return found


def kafka() -> str:
    """Classpath of Kafka and its tools: SLUICEGATE_KAFKA_LIBS or what deploy/kafka/pom.xml fetches."""
    return classpath(KAFKA)


def pulsar() -> str:
    """Classpath of Pulsar and its client: SLUICEGATE_PULSAR_LIBS or what deploy/pulsar/pom.xml fetches."""
    return classpath(PULSAR)


def strimzi_plugin() -> str:
    """Classpath of the Strimzi quota plug-in, to be added to that of a broker."""
    return classpath(STRIMZI)


def deploy() -> Path:
    """The folder `deploy` of the source tree: below the working directory, or where this file lies in it."""
    here = Path("deploy").absolute()
    return here if here.is_dir() else Path(__file__).resolve().parents[4] / "deploy"


def folder(pom: str) -> Path:
    """Where the jars of a pom lie, or would.

    :param pom: its folder in `deploy/`.
    """
    return Path(os.environ.get(_ELSEWHERE.get(pom, ""), "") or deploy() / pom / _FETCHED)


def classpath(pom: str) -> str:
    """All jars of a pom.

    :raises UnavailableError: if there is no Java, or no jars; with the remedy.
    """
    java()
    found = folder(pom)
    if not any(found.glob("*.jar")):
        variable = _ELSEWHERE.get(pom)
        wrong = f", or {variable} is wrong" if variable else ""
        raise UnavailableError(f"no jars in {found}: mvn could not fetch them{wrong}")
    return f"{found}/*"


def version(pom: str, jar: str) -> str:
    """Version of a jar by its name, such as `kafka-clients`; empty if it is not there."""
    for file in sorted(folder(pom).glob(f"{jar}-[0-9]*.jar")):
        return file.stem.removeprefix(f"{jar}-")
    return ""
