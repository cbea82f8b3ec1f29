"""Archives of Java classes, parsed and verified: a broker that uses one is ready in half the CPU time.

An archive belongs to one Java and one set of jars. It lies beside their folder, for all processes of a run
and for later runs.
"""

import fcntl
import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.processes import UnavailableError

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
    archive = folder.with_name(f"classes-{digest.hexdigest()[:16]}.jsa")
    with suppress(OSError), _alone(folder.with_name("classes.lock")):
        if not archive.exists():
            _make(archive, record)
    return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()


def _make(archive: Path, record: Record) -> None:
    unfinished = archive.with_suffix(".unfinished")
    with tempfile.TemporaryDirectory() as directory, suppress(UnavailableError, RuntimeError):
        record(Path(directory), f"-XX:ArchiveClassesAtExit={unfinished}")
    if unfinished.exists():
        for outdated in archive.parent.glob("classes-*.jsa"):
            outdated.unlink()
        unfinished.rename(archive)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
