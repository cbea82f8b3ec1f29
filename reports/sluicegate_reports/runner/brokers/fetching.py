"""Has Maven fetch the jars of real brokers; runs as a module too, without any dependency.

A folder appears once it is complete, with the digest of its pom. An interrupted fetch is repeated, and so is
one whose pom has changed since.
"""

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sluicegate_reports.runner.brokers.jars import SHIPPED, JarSet, classpath, folder, home, java, pom
from sluicegate_reports.runner.brokers.processes import UnavailableError, run_tool

_MARK = "pom.sha256"
_TIMEOUT_S = 3600
_BINDINGS = "slf4j-log4j12,slf4j-reload4j"
_SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+NeverActAsServerClassMachine"
"""Java's quick compiler and its smallest collector: Maven then takes less than half the CPU time."""


def fetch(wanted: JarSet, say: Callable[[str], None]) -> Path:
    """Make sure that the jars of a set are there, and complete.

    :param say: takes a line of text before a long wait.
    :return: their folder.
    :raises UnavailableError: if they are not available; with the remedy.
    """
    java()
    if os.environ.get(wanted.variable):
        classpath(wanted)
        return folder(wanted)
    project, target = pom(wanted), home(wanted)
    digest = hashlib.sha256(project.read_bytes()).hexdigest()
    try:
        if not _is_fetched(target, digest):
            with _alone(target):
                if not _is_fetched(target, digest):  # by the process that was waited for
                    _fetch(wanted, project, target, digest, say)
    except OSError as error:
        raise UnavailableError(
            f"cannot write {str(target)!r}: {error.strerror or error}; set XDG_CACHE_HOME to a directory "
            f"that can be written, or {wanted.variable} to a folder with the jars"
        ) from None
    return target


def _fetch(wanted: JarSet, project: Path, target: Path, digest: str, say: Callable[[str], None]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise UnavailableError(
            f"mvn is not installed, which fetches {wanted.title}: install Maven (Debian, Ubuntu: apt-get "
            f"install maven), or set {wanted.variable} to a folder with the jars"
        )
    unfinished = target.with_name(f"{target.name}.unfinished")
    _remove(unfinished)
    say(f"fetching {wanted.title} with Maven into {target}")
    command: list[str | Path] = [maven, "-q", "-B", "-Dstyle.color=never", "-f", project]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={unfinished}"]
    if wanted.other_version:
        # Older Kafkas bring a binding of SLF4J that stands before ours and, unconfigured, prints nothing.
        command += [f"-D{wanted.name}.version={wanted.other_version}", f"-DexcludeArtifactIds={_BINDINGS}"]
    options = f"{_SHORT_RUN} {os.environ.get('MAVEN_OPTS', '')}".rstrip()  # of two, Java takes the user's
    try:
        run_tool(command, _TIMEOUT_S, {"MAVEN_OPTS": options})
    except RuntimeError as error:
        _remove(unfinished)
        raise UnavailableError(f"Maven did not fetch {wanted.title}: {_essence(str(error))}") from None
    (unfinished / _MARK).write_text(digest)
    _remove(target)
    unfinished.rename(target)


def _is_fetched(target: Path, digest: str) -> bool:
    try:
        return (target / _MARK).read_text() == digest
    except FileNotFoundError:
        return False


def _remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Hold a lock, so that no other process fetches into the same folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _essence(output: str) -> str:
    """The first error that Maven printed; with the remedy if it is about its own directory."""
    errors = [line.partition("[ERROR] ")[2] for line in output.splitlines() if "[ERROR] " in line]
    problem = (errors or output.splitlines()[-1:])[0].removesuffix(" -> [Help 1]")
    if "local repository" in problem:
        problem += "; MAVEN_OPTS=-Dmaven.repo.local=DIR has Maven keep its files in another directory"
    return problem


def fetch_all(wanted: Sequence[JarSet], say: Callable[[str], None]) -> bool:
    """Fetch several sets; a set that cannot be fetched is reported and does not stop the others.

    :return: True if all are there.
    """
    problems: dict[str, None] = {}
    for each in wanted:
        try:
            fetch(each, say)
        except UnavailableError as error:
            problems[str(error)] = None
    for problem in problems:
        say(f"error: {problem}")
    return not problems


if __name__ == "__main__":
    sys.exit(0 if fetch_all(SHIPPED, lambda line: print(line, flush=True)) else 1)  # noqa: T201 - a program
