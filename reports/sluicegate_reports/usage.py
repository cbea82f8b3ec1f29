"""What all commands of the reports share: how wrong use is told, what Spark needs, whole files."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Unusable(click.ClickException):
    """Something that was named cannot be used; 1 would say that a threshold failed."""

    exit_code = 2


def need_java() -> None:
    """Refuse to begin without Java, as Spark's own message is a stack of traces.

    :raises Unusable: with the remedy.
    """
    home = os.environ.get("JAVA_HOME")
    if "SPARK_REMOTE" in os.environ or shutil.which("java") or (home and (Path(home) / "bin/java").exists()):
        return
    raise Unusable(
        "Spark needs Java 17, and there is none: install it (Debian: default-jre-headless) or set JAVA_HOME; "
        "or name a Spark Connect server by SPARK_REMOTE=sc://HOST:PORT"
    )


@contextmanager
def spark(name: str) -> "Iterator[SparkSession]":
    """A session that ends with the block.

    :raises Unusable: without Spark or Java.
    """
    try:
        from sluicegate_reports.session import spark_session

        need_java()
        session = spark_session(name)
    except ModuleNotFoundError as error:
        raise without(error) from None
    try:
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
