"""`sluicegate report archive-classes`: has Spark be ready sooner from then on."""

import os
import subprocess

import click

from sluicegate.host.children import python_command
from sluicegate.output import echo
from sluicegate_reports.commands.locations import FOLDER
from sluicegate_reports.commands.usage import Unusable, need_java, not_installed, spark_classes
from sluicegate_reports.model.locations import Location, one_line
from sluicegate_reports.spark.class_archive import ClassArchive


@click.command("archive-classes")
@click.argument("directory", type=FOLDER, metavar="DIR")
def archive_classes(directory: Location) -> None:
    """Archive the Java classes of Spark, so that commands of `report` take seconds less from then on.

    The recorded run in DIR is compared once, and the classes which that loads are kept in the user's cache
    (XDG_CACHE_HOME, ~/.cache): some 170 MB for one Java and one Spark. Repeat it after an update of either.
    """
    need_java()
    try:
        archive = spark_classes()
    except ModuleNotFoundError as error:
        raise not_installed(error) from None
    echo(f"comparing {str(directory)!r} to see what Spark loads, which takes about half a minute")
    try:
        archive.path.unlink(missing_ok=True)
        archive.make(lambda option: _compare(directory, option))
    except OSError as error:
        where = str(archive.path.parent)
        raise Unusable(
            f"cannot write {where!r}: {one_line(error)}; set XDG_CACHE_HOME to a directory that can "
            "be written"
        ) from None
    _report(archive)


def _compare(directory: Location, option: str) -> None:
    """Compare the run in a process of its own, and return when its Java has ended too.

    :raises Unusable: if it fails.
    """
    settings = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {option}".strip()
    # Java holds the pipes too, so they close when it has written the archive.
    done = subprocess.run(  # noqa: S603 - this program
        python_command("sluicegate", "report", "compare", str(directory), "--spark", "--format", "json"),
        env={**os.environ, "SPARK_SUBMIT_OPTS": settings},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Unusable(done.stderr.strip().removeprefix("Error: ") or "the run cannot be compared")


def _report(archive: ClassArchive) -> None:
    try:
        size = archive.path.stat().st_size
    except OSError:
        raise Unusable("Java wrote no archive; class-data sharing needs HotSpot, as OpenJDK has it") from None
    echo(f"{size / 1e6:.0f} MB are kept in {archive.path}")
