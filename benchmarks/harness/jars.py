"""Programs that the arms need: Java ones fetched by Maven from the poms in deploy/, Go ones built, once.

`prepare` runs before the harness enters its own network namespace, where no registry can be reached;
the look-ups after it only read what is there.
"""

import shutil
import subprocess
from pathlib import Path

from sluicegate_reports.runner.brokers.fetching import fetch
from sluicegate_reports.runner.brokers.jars import SHIPPED, JarSet, classpath, folder, has_jars
from sluicegate_reports.runner.brokers.processes import UnavailableError

ROOT = Path(__file__).resolve().parents[2]
_DEPLOY = ROOT / "deploy"
_KROXYLICIOUS = JarSet("kroxylicious", "Kroxylicious", "peers/kroxylicious")
_PULSAR_PROXY = JarSet("pulsar_proxy", "Pulsar Proxy", "peers/pulsar-proxy")
_CLASSES = _DEPLOY / _KROXYLICIOUS.folder / "target/classes"


def prepare() -> list[str]:
    """Fetch and compile missing programs; returns problems, in words."""
    problems = []
    for wanted in (*SHIPPED, _KROXYLICIOUS, _PULSAR_PROXY):
        try:
            fetch(wanted, print)
        except UnavailableError as error:
            problems.append(str(error))
    source, classes = _DEPLOY / _KROXYLICIOUS.folder / "KroxyliciousMain.java", _CLASSES
    libraries = folder(_KROXYLICIOUS)
    if has_jars(libraries) and not (classes / "KroxyliciousMain.class").exists():
        problems += _run(["javac", "-cp", f"{libraries}/*", "-d", classes, source])
    if not (ROOT / "deploy/grpc/target/peer").exists():
        problems += _run(["make", "-C", ROOT, "grpc-go"])
    return problems


def pulsar_proxy() -> str:
    """Classpath of Apache Pulsar Proxy and of pulsar-perf, of an older version than the broker's."""
    return classpath(_PULSAR_PROXY)


def kroxylicious() -> str:
    """Classpath of Kroxylicious and the main class that starts it."""
    jars, classes = classpath(_KROXYLICIOUS), _CLASSES
    if not (classes / "KroxyliciousMain.class").exists():
        raise UnavailableError(f"{classes / 'KroxyliciousMain.class'} is missing: javac (a JDK) is needed")
    return f"{classes}:{jars}"


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
