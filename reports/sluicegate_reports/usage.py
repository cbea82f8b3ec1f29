"""What all commands of the reports share: how wrong use is told, what Spark needs, whole files."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JAVA = 17
"""The oldest Java that Spark 4 runs on."""
_REMEDY = (
    f"apt-get install openjdk-{JAVA}-jre-headless (Debian, Ubuntu; any later one does too), or set JAVA_HOME "
    "to one that is installed, or name a Spark Connect server by SPARK_REMOTE=sc://HOST:PORT"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
"""Of `openjdk version "17.0.15"`, and of the old `java version "1.8.0_402"`."""
_ASK_S = 20.0


class Unusable(click.ClickException):
    """Something that was named cannot be used; 1 would say that a threshold failed."""

    exit_code = 2


def need_java() -> None:
    """Refuse to begin without Java, as Spark's own message is a stack of traces.

    :raises Unusable: with the remedy.
    """
    if "SPARK_REMOTE" in os.environ:
        return
    java = _java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME={home} holds none" if home else "there is none"
        raise Unusable(f"Spark needs Java {JAVA} or later, and {where}: {_REMEDY}")
    found = _java_version(java)
    if found is not None and found < JAVA:
        raise Unusable(f"Spark needs Java {JAVA} or later, and {java} is Java {found}: {_REMEDY}")


def _java() -> str | None:
    """The program that Spark would start: that of JAVA_HOME, else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    if not home:
        return shutil.which("java")
    program = Path(home) / "bin" / "java"
    return str(program) if program.exists() else None


def _java_version(java: str) -> int | None:
    """Its major version; None if it does not say, which Spark then has to judge."""
    try:
        done = subprocess.run(  # noqa: S603 - what Spark would start
            [java, "-version"], capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stderr)
    return int(found[1]) if found else None


@contextmanager
def spark(name: str) -> "Iterator[SparkSession]":
    """A session that ends with the block.

    :raises Unusable: without Spark or Java.
    """
    try:
        from sluicegate_reports.progress import working
        from sluicegate_reports.session import spark_session

        need_java()
        session = spark_session(name)
    except ModuleNotFoundError as error:
        raise without(error) from None
    try:
        with working(name.rpartition(" ")[2]):
            yield session
    finally:
        session.stop()


def without(error: ModuleNotFoundError) -> Unusable:
    """What to say where a part of the extra is not installed."""
    return Unusable(f"{error.name} is not installed: pip install 'sluicegate[reports]'")


def write(out: Path, text: str) -> None:
    """Write a file whole or not at all: a reader never meets half of it.

    :raises Unusable: if it cannot be written.
    """
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(out)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise Unusable(f"cannot write {str(out)!r}: {error.strerror}") from None
