"""Programs that the arms need: Java ones fetched by Maven from the poms in deploy/, Go ones built, once.

`prepare` runs before the harness enters its own network namespace, where no registry can be reached;
the look-ups after it only read what is there.
"""

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.harness.processes import UnavailableError

ROOT = Path(__file__).resolve().parents[2]
_KAFKA = ROOT / "deploy/kafka"
_KROXYLICIOUS = ROOT / "deploy/peers/kroxylicious"
_STRIMZI = ROOT / "deploy/peers/strimzi-quotas"
_PULSAR = ROOT / "deploy/pulsar"
_PULSAR_PROXY = ROOT / "deploy/peers/pulsar-proxy"
_FETCHED = "target/dependency"
_ELSEWHERE = {_KAFKA: "SLUICEGATE_KAFKA_LIBS", _PULSAR: "SLUICEGATE_PULSAR_LIBS"}
"""Variables that may name another folder with the jars of a pom."""


def prepare() -> list[str]:
    """Fetch and compile what is missing; returns what could not be had, in words."""
    problems = []
    for folder in (_KAFKA, _KROXYLICIOUS, _STRIMZI, _PULSAR, _PULSAR_PROXY):
        if not _folder(folder).is_dir():
            problems += _run(
                ["mvn", "-q", "-B", "-f", folder, "dependency:copy-dependencies", "-DincludeScope=runtime"]
            )
    source, classes = _KROXYLICIOUS / "KroxyliciousMain.java", _KROXYLICIOUS / "target/classes"
    if (_KROXYLICIOUS / _FETCHED).is_dir() and not (classes / "KroxyliciousMain.class").exists():
        problems += _run(["javac", "-cp", f"{_KROXYLICIOUS / _FETCHED}/*", "-d", classes, source])
    if not (ROOT / "deploy/grpc/target/peer").exists():
        problems += _run(["make", "-C", ROOT, "ghz"])
    return problems


def java() -> str:
    """Path of the Java launcher."""
    found = shutil.which("java")
    if found is None:
        raise UnavailableError("java is not installed; Java 17 or later is needed")
    return found


def kafka() -> str:
    """Classpath of Kafka and its tools: SLUICEGATE_KAFKA_LIBS or what deploy/kafka/pom.xml fetches."""
    return _jars(_KAFKA)


def pulsar() -> str:
    """Classpath of Pulsar and its client: SLUICEGATE_PULSAR_LIBS or what deploy/pulsar/pom.xml fetches."""
    return _jars(_PULSAR)


def pulsar_proxy() -> str:
    """Classpath of Apache Pulsar Proxy and of pulsar-perf, of an older version than the broker's."""
    return _jars(_PULSAR_PROXY)


def kroxylicious() -> str:
    """Classpath of Kroxylicious and the main class that starts it."""
    jars, classes = _jars(_KROXYLICIOUS), _KROXYLICIOUS / "target/classes"
    if not (classes / "KroxyliciousMain.class").exists():
        raise UnavailableError(f"{classes / 'KroxyliciousMain.class'} is missing: javac (a JDK) is needed")
    return f"{classes}:{jars}"


def strimzi_plugin() -> str:
    """Classpath of the Strimzi quota plug-in, to be added to that of a broker."""
    return _jars(_STRIMZI)


def _folder(pom: Path) -> Path:
    """Where the jars of a pom's folder lie, or would."""
    return Path(os.environ.get(_ELSEWHERE.get(pom, ""), "") or pom / _FETCHED)


def _jars(pom: Path) -> str:
    java()
    folder = _folder(pom)
    if not any(folder.glob("*.jar")):
        variable = _ELSEWHERE.get(pom)
        wrong = f", or {variable} is wrong" if variable else ""
        raise UnavailableError(f"no jars in {folder}: mvn could not fetch them{wrong}")
    return f"{folder}/*"


def _run(argv: list[str | Path]) -> list[str]:
    command = [str(part) for part in argv]
    if shutil.which(command[0]) is None:
        return [f"{command[0]} is not installed, so this was not done: {' '.join(command)}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (
        []
        if done.returncode == 0
        else [f"{' '.join(command)} failed: {done.stdout[-500:]}{done.stderr[-500:]}"]
    )
