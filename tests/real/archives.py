"""Archives of Java classes, parsed and verified: a broker that uses one is ready in half the CPU time.

An archive belongs to one Java and one set of jars. It lies beside their folder, for all processes of a run
and for later runs.
"""

import hashlib
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.processes import UnavailableError
from sluicegate_reports.spark.class_archive import ClassArchive

Record = Callable[[Path, str], None]
"""`record(directory, option)` starts a Java process in an empty directory and has it end in good order."""


@cache
def archived(wanted: jars.JarSet, record: Record) -> tuple[str, ...]:
    """Options for Java processes whose classpath begins with a set of jars.

    The first caller of all processes makes the archive, and the others wait for it.

    :param record: starts a process that loads the classes which are to be archived.
    :return: nothing where no archive can be made or written.
    :raises UnavailableError: if there is no Java, or no jars.
    """
    java, folder = Path(jars.java()).resolve(), jars.folder(wanted)
    jars.classpath(wanted)
    digest = hashlib.sha256(f"{java} {java.stat().st_mtime_ns} {folder}".encode())
    for jar in sorted(folder.glob("*.jar")):
        digest.update(f"{jar.name} {jar.stat().st_mtime_ns}".encode())
    archive = ClassArchive(folder.with_name(f"classes-{digest.hexdigest()[:16]}.jsa"))
    with suppress(OSError):
        archive.make(partial(_make, archive, record))
    return archive.options


def _make(archive: ClassArchive, record: Record, option: str) -> None:
    for outdated in archive.path.parent.glob("classes-*.jsa"):
        outdated.unlink()
    with tempfile.TemporaryDirectory() as directory, suppress(UnavailableError, RuntimeError):
        record(Path(directory), option)
