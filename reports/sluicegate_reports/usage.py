"""Shared by all commands of the reports: usage errors, what Spark needs, files written whole."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluicegate_reports.places import Location, Place, PlaceError, place, spark_settings, told
from sluicegate_reports.runner.brokers.jars import S3, folder, has_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JAVA = 17
"""The oldest Java that Spark 4 runs on."""
_REMEDY = (
    f"apt-get install openjdk-{JAVA}-jre-headless (Debian, Ubuntu; any later one does too), or set JAVA_HOME "
    "to one that is installed, or name a Spark Connect server by SPARK_REMOTE=sc://HOST:PORT"
)
_NO_S3 = (
    "Spark lacks the jars for s3a: run `sluicegate compare fetch s3`, or have the cluster bring hadoop-aws"
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
def spark(name: str, *places: Place) -> "Iterator[SparkSession]":
    """A session that ends with the block.

    :param places: what is to be read and written.
    :raises Unusable: without Spark or Java.
    """
    try:
        from sluicegate_reports.progress import working
        from sluicegate_reports.session import spark_session

        need_java()
        session = spark_session(name, for_stores(*places))
    except ModuleNotFoundError as error:
        raise without(error) from None
    try:
        with failures(), working(name.rpartition(" ")[2]):
            yield session
    finally:
        session.stop()


@contextmanager
def failures() -> Iterator[None]:
    """Tell in a line what Spark or a store failed with.

    :raises Unusable: if one does.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except PlaceError as error:
        raise Unusable(str(error)) from None
    except (PySparkException, Py4JError) as error:
        lines = str(error).splitlines()
        # The first line of an error that came through from Java only says where it came through.
        said = next(
            (line for line in lines if "Exception: " in line), lines[0] if lines else "no reason given"
        )
        more = f"; {_NO_S3}" if "S3AFileSystem" in str(error) else ""
        raise Unusable(f"Spark failed: {said.strip()}{more}") from None


def without(error: ModuleNotFoundError) -> Unusable:
    """What to say where a part of the extra is not installed."""
    return Unusable(f"{error.name} is not installed: pip install 'sluicegate[reports]'")


def for_stores(*places: Place) -> dict[str, str]:
    """What a Spark that is started here needs to reach the places, beside what everybody sets."""
    if not any(place.is_s3 for place in places):
        return {}
    jars = folder(S3)
    return {
        **({"spark.driver.extraClassPath": f"{jars}/*"} if has_jars(jars) else {}),
        **spark_settings(),
    }


def write(out: Location, text: str) -> None:
    """Write a file whole or not at all: a reader never meets half of it.

    :raises Unusable: if it cannot be written.
    """
    try:
        place(out).write_bytes(text.encode())
    except OSError as error:
        raise Unusable(f"cannot write {str(out)!r}: {told(error)}") from None
