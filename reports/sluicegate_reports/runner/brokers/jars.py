"""Locates the jars of the brokers that are started here. `fetching` gets them."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sluicegate_reports.runner.brokers.processes import UnavailableError

_HERE = Path(__file__).resolve().parent
_ASK_S = 20.0


@dataclass(frozen=True, slots=True)
class JarSet:
    """The jars that one Maven project file (pom) lists."""

    name: str
    """What `sluicegate compare fetch` calls it."""
    title: str
    """For messages."""
    folder: str
    """Folder of its pom, in the folder `deploy` of the source tree."""

    @property
    def variable(self) -> str:
        """Environment variable that may name a folder with the jars."""
        return f"SLUICEGATE_{self.name.upper()}_LIBS"

    @property
    def version_variable(self) -> str:
        """Environment variable that may ask for another version of Kafka or Pulsar than the pom does."""
        return f"SLUICEGATE_{self.name.upper()}_VERSION"

    @property
    def other_version(self) -> str:
        """The version that it asks for; empty for the pom's own."""
        return os.environ.get(self.version_variable, "")


KAFKA = JarSet("kafka", "Kafka", "kafka")
PULSAR = JarSet("pulsar", "Pulsar", "pulsar")
STRIMZI = JarSet("strimzi", "the Strimzi quota plug-in", "peers/strimzi-quotas")
S3 = JarSet("s3", "Spark's way to S3", "spark-s3")
SHIPPED = (KAFKA, PULSAR, STRIMZI, S3)
"""The sets whose poms come with the product."""


def java() -> str:
    """Path of the Java launcher.

    :raises UnavailableError: if there is none.
    """
    launcher = shutil.which("java")
    if launcher is None:
        raise UnavailableError("java is not installed; Java 17 or later is needed")
    return launcher


def java_version(launcher: str) -> str:
    """The version that a Java launcher prints, such as `17.0.15` or `1.8.0_402`; empty if it prints none."""
    try:
        done = subprocess.run(  # noqa: S603 - what its caller found
            [launcher, "-version"], capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""


def classpath(wanted: JarSet) -> str:
    """All jars of a set.

    :raises UnavailableError: if there is no Java, or no jars; with the remedy.
    """
    java()
    jars = folder(wanted)
    if has_jars(jars):
        return f"{jars}/*"
    if os.environ.get(wanted.variable):
        raise UnavailableError(f"{wanted.variable} names {jars}, which holds no jars")
    raise UnavailableError(
        f"{jars} holds no jars of {wanted.title}: run `sluicegate compare fetch {wanted.name}`, which needs "
        f"Maven, or name a folder that holds them in {wanted.variable}"
    )


def version(wanted: JarSet, jar: str) -> str:
    """Version of a jar by its name, such as `kafka-clients`; empty if it is not there."""
    for file in sorted(folder(wanted).glob(f"{jar}-[0-9]*.jar")):
        return file.stem.removeprefix(f"{jar}-")
    return ""


def folder(wanted: JarSet) -> Path:
    """Where the jars of a set lie.

    :return: the folder that its variable names; else that of the source tree or that of the user's cache,
        whichever holds jars; else the one that `fetching` fills.
    """
    if named := os.environ.get(wanted.variable):
        return Path(named)
    return next(filter(has_jars, (home(wanted), _cached(wanted))), home(wanted))


def home(wanted: JarSet) -> Path:
    """The folder that `fetching` fills: beside the pom in a source tree, else in the user's cache.

    Another version has one of its own.
    """
    tree = source_tree()
    if tree is None:
        return _cached(wanted)
    return tree / "deploy" / wanted.folder / "target" / wanted.other_version / "dependency"


def pom(wanted: JarSet) -> Path:
    """The Maven project file of a set: from the source tree, else the installed one."""
    tree = source_tree()
    return (
        _HERE / "poms" / f"{wanted.name}.xml" if tree is None else tree / "deploy" / wanted.folder / "pom.xml"
    )


def source_tree() -> Path | None:
    """The source tree that is the working directory or holds this file; None outside of one."""
    for root in (Path.cwd(), _HERE.parents[3]):
        if (root / "reports/sluicegate_reports").is_dir() and (root / "deploy").is_dir():
            return root
    return None


def has_jars(directory: Path) -> bool:
    """True if there are jars in a folder."""
    return any(directory.glob("*.jar"))


def cache() -> Path:
    """The product's folder in the user's cache; it need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "sluicegate")


def _cached(wanted: JarSet) -> Path:
    return cache() / "jars" / wanted.other_version / wanted.name
