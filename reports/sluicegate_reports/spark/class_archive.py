"""Archives of Java's classes, parsed and verified, with which Java is ready in half the time (JEP 350).

An archive fits one Java and one classpath. Java compares both itself, and starts without an archive that does
not fit.
"""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """One archive, which may have to be made yet."""

    path: Path

    @property
    def options(self) -> tuple[str, ...]:
        """Options with which Java uses the archive, and ignores one that does not fit; none without it."""
        if not self.path.exists():
            return ()
        return f"-XX:SharedArchiveFile={self.path}", "-Xlog:cds*=off,class+path*=off"

    def make(self, record: Callable[[str], None]) -> None:
        """Make the archive, unless another process does so first.

        :param record: runs a Java process with this option to its orderly end; what it loads is archived.
        :raises OSError: if its folder cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(self.path.with_suffix(".lock")):
            if not self.path.exists():
                unfinished = self.path.with_suffix(".unfinished")
                record(f"-XX:ArchiveClassesAtExit={unfinished}")
                if unfinished.exists():
                    unfinished.rename(self.path)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
