"""Shared by all commands of the reports: usage errors, what Spark needs, files written whole."""

import hashlib
import importlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sluicegate_reports.model.locations import (
    Location,
    LocationError,
    LocationLike,
    locate,
    one_line,
    spark_settings,
)
from sluicegate_reports.runner.brokers.jars import S3, cache, folder, has_jars, java_version
from sluicegate_reports.spark.class_archive import ClassArchive

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


class Unusable(click.ClickException):
    """An argument cannot be used. Its exit code is 2, as 1 says that a threshold failed."""

    exit_code = 2


def need_java() -> None:
    """Refuse to start without Java: Spark's own message is a stack trace.

    :raises Unusable: with the remedy.
    """
    if "SPARK_REMOTE" in os.environ:
        return
    launcher = java()
    if launcher is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME={home} holds none" if home else "there is none"
        raise Unusable(f"Spark needs Java {JAVA} or later, and {where}: {_REMEDY}")
    major = re.match(r"(?:1\.)?(\d+)", java_version(launcher))
    # Where it does not say, Spark has to judge.
    if major and int(major[1]) < JAVA:
        raise Unusable(f"Spark needs Java {JAVA} or later, and {launcher} is Java {major[1]}: {_REMEDY}")


def java() -> str | None:
    """The program that Spark would start: that of JAVA_HOME, else of the PATH."""
    home = os.environ.get("JAVA_HOME")
    if not home:
        return shutil.which("java")
    program = Path(home) / "bin" / "java"
    return str(program) if program.exists() else None


def spark_classes() -> ClassArchive:
    """The archive of what Spark loads, in the user's cache, for one Java and one Spark.

    :raises ModuleNotFoundError: without Spark.
    """
    import pyspark

    digest = hashlib.sha256(f"{os.path.realpath(java() or '')} {pyspark.__path__[0]}".encode())
    return ClassArchive(cache() / "classes" / f"spark-{digest.hexdigest()[:16]}.jsa")


@contextmanager
def spark(
    name: str, *locations: Location, little: bool = False, frugal: bool = False
) -> "Iterator[SparkSession]":
    """A session that ends with the block.

    :param name: of the command; its last word names what is under way.
    :param locations: what is to be read and written.
    :param little: whether it reads little, see `session.spark_session`.
    :param frugal: whether Java needs little memory, likewise.
    :raises Unusable: without Spark or Java.
    """
    try:
        from sluicegate_reports.spark.progress import working
        from sluicegate_reports.spark.session import spark_session

        need_java()
        options = spark_classes().options
        session = spark_session(name, for_stores(*locations), little=little, frugal=frugal, options=options)
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    try:
        with failures(), working(name.rpartition(" ")[2]):
            yield session
    finally:
        session.stop()


@contextmanager
def failures() -> Iterator[None]:
    """Report a failure of Spark or of a store in one line.

    :raises Unusable: if one does.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except LocationError as error:
        raise Unusable(str(error)) from None
    except (PySparkException, Py4JError) as error:
        lines = str(error).splitlines()
        # The first line of an error from Java only names the bridge that it crossed.
        said = next(
            (line for line in lines if "Exception: " in line), lines[0] if lines else "no reason given"
        )
        more = f"; {_NO_S3}" if "S3AFileSystem" in str(error) else ""
        raise Unusable(f"Spark failed: {said.strip()}{more}") from None


def not_installed(error: ModuleNotFoundError, extra: str = "reports") -> Unusable:
    """The error for a part of an extra that is not installed."""
    return Unusable(f"{error.name} is not installed: pip install 'sluicegate[{extra}]'")


def part(name: str) -> Any:
    """A module that needs the extra, loaded only now: the command line starts faster without Spark.

    :param name: from `sluicegate_reports` on.
    :raises Unusable: without the extra.
    """
    try:
        return importlib.import_module(f"sluicegate_reports.{name}")
    except ModuleNotFoundError as error:
        raise not_installed(error) from None


def for_stores(*locations: Location) -> dict[str, str]:
    """Further settings that a Spark started here needs to reach them."""
    if not any(location.is_s3 for location in locations):
        return {}
    jars = folder(S3)
    return {
        **({"spark.driver.extraClassPath": f"{jars}/*"} if has_jars(jars) else {}),
        **spark_settings(),
    }


def write(out: LocationLike, text: str) -> None:
    """Write a file atomically: readers never see half of it.

    :raises Unusable: if it cannot be written.
    """
    try:
        locate(out).write_bytes(text.encode())
    except OSError as error:
        raise Unusable(f"cannot write {str(out)!r}: {one_line(error)}") from None
