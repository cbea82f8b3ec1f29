"""Compiles and starts the Java programs of the tests."""

import shutil
import subprocess
from pathlib import Path

_FRUGAL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""The collector that needs least, and the quick compiler: these programs end before another pays off."""


def frugal_jvm(heap_mb: int) -> tuple[str, ...]:
    """Options of Java for a short program.

    :param heap_mb: bound on its heap, in MiB.
    """
    return (f"-Xmx{heap_mb}m", *_FRUGAL)


def why_no_compiler() -> str | None:
    """What is missing to compile the Java clients, in words; None if nothing."""
    return None if shutil.which("javac") else "javac is not installed (a JDK 17 is needed, not only a JRE)"


def compile_java(classpath: str, classes: Path, *sources: Path) -> str:
    """Compile a program.

    :param classes: the folder for what is compiled.
    :return: the class path with that folder.
    """
    options = [f"-J{option}" for option in _FRUGAL]
    command: list[str | Path] = ["javac", *options, "-proc:none", "-cp", classpath, "-d", classes, *sources]
    subprocess.run(command, check=True, capture_output=True)
    return f"{classpath}:{classes}"
