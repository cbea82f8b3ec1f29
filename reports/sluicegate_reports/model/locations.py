"""Files and folders of runs, logs and reports: on this machine, or in a store that a URL names.

Arrow reaches `s3a://` (`s3://` is the same), `gs://`, `abfss://` and `hdfs://`; fsspec, if it is installed,
reaches the other protocols that it supports. Both take credentials and endpoints where the stores' own tools
do, such as from `AWS_ACCESS_KEY_ID` and `AWS_ENDPOINT_URL`. `file://` is a path of this machine.
"""

import importlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, TypeAlias
from urllib.parse import unquote, urlsplit

from sluicegate.host.private_files import opener

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_S3 = ("s3", "s3a", "s3n")
_OF_ARROW = {**dict.fromkeys(_S3, "s3"), "gs": "gs", "gcs": "gs", "abfs": "abfs", "abfss": "abfss"}
"""Schemes that Arrow brings itself, by the name that it has for them."""
_OF_HADOOP = ("hdfs", "viewfs")
_UNFINISHED = ".{}.unfinished"


class LocationError(OSError):
    """A store is unreachable or refuses access; the message says which, why, and what to do."""


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A file or a folder. Made by `locate`."""

    url: str
    """As Spark takes it: a path of this machine, or a URL without a slash at its end."""

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> "Location":
        return Location(f"{self.url.rstrip('/')}/{name}")

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return _URL.fullmatch(self.url) is None

    @property
    def is_s3(self) -> bool:
        """Whether it is in S3 or a compatible store."""
        return self.url.partition("://")[0] in _S3 and not self.is_local

    @property
    def path(self) -> Path:
        """The path of this machine; only of a local one."""
        return Path(self.url)

    @property
    def name(self) -> str:
        """The last part of it."""
        return PurePosixPath(self.url).name

    @property
    def suffix(self) -> str:
        """The ending of its name, dot included."""
        return PurePosixPath(self.url).suffix

    @property
    def parent(self) -> "Location":
        """The folder that it is in."""
        return Location(str(self.path.parent) if self.is_local else self.url.rpartition("/")[0])

    def absolute(self) -> "Location":
        """Its absolute form, independent of the working directory."""
        return Location(str(self.path.absolute())) if self.is_local else self

    def relative_to(self, folder: "Location") -> str:
        """Its path from a folder above it."""
        return self.url.removeprefix(folder.url.rstrip("/")).lstrip("/")

    def files(self) -> "list[File]":
        """All files at any depth, in order; none if there is no such folder.

        :raises OSError: if it cannot be listed.
        """
        from pyarrow import fs

        store, inner = _store(self.url)
        infos = store.get_file_info(fs.FileSelector(inner, allow_not_found=True, recursive=True))
        root = self.url.rstrip("/")
        return sorted(
            File(Location(f"{root}/{info.path[len(inner.rstrip('/')) :].lstrip('/')}"), info.size)
            for info in infos
            if info.type == fs.FileType.File
        )

    def exists(self) -> bool:
        """Whether there is such a file, or folder."""
        from pyarrow import fs

        store, inner = _store(self.url)
        return bool(store.get_file_info(inner).type != fs.FileType.NotFound)

    def open(self) -> "pa.NativeFile":
        """Open a file to read any part of it.

        :raises OSError: if it is missing or unreadable.
        """
        store, inner = _store(self.url)
        return store.open_input_file(inner)

    def read_bytes(self) -> bytes:
        """All of a file.

        :raises OSError: if it is missing or unreadable.
        """
        if self.is_local:
            return self.path.read_bytes()
        with self.open() as file:
            return bytes(file.read())

    def write_bytes(self, content: bytes) -> None:
        """Write a file atomically: readers never see half of it.

        :raises OSError: if it cannot be written.
        """
        with self.written() as file:
            file.write(content)

    @contextmanager
    def written(self, *, private: bool = False) -> "Iterator[BinaryIO | pa.NativeFile]":
        """A file to write to, which has another name until it is whole.

        :param private: whether only its owner may read it, where it is on this machine.
        """
        unfinished = self.parent / _UNFINISHED.format(self.name)
        store, inner = _store(unfinished.url)
        file: BinaryIO | pa.NativeFile
        if self.is_local:
            file = open(unfinished.url, "wb", opener=opener if private else None)  # noqa: SIM115 - see below
        else:
            file = store.open_output_stream(inner)
        try:
            with file:
                yield file
                if self.is_local:
                    # Who removes what it replaces may do so at once, even if the power fails.
                    file.flush()
                    os.fsync(file.fileno())
            if self.is_local:
                unfinished.path.replace(self.path)
            else:
                store.move(inner, _store(self.url)[1])
        except BaseException:
            with suppress(OSError):  # what is left begins with a dot, and readers ignore it
                store.delete_file(inner)
            raise

    def remove(self) -> None:
        """Remove a file.

        :raises OSError: if it is missing, or cannot be removed.
        """
        store, inner = _store(self.url)
        store.delete_file(inner)


@dataclass(frozen=True, slots=True, order=True)
class File:
    """A file that was listed."""

    location: Location
    size: int
    """In bytes."""


LocationLike: TypeAlias = str | os.PathLike[str] | Location
"""How a location may be given."""


def locate(location: LocationLike) -> Location:
    """What a path or a URL names.

    :param location: a path of this machine, or a URL.
    """
    if isinstance(location, Location):
        return location
    text = os.fspath(location)
    match = _URL.fullmatch(text)
    if match is None:
        return Location(text)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return Location(str(Path(unquote(urlsplit(text).path))))
    # Hadoop knows S3 by this name only.
    return Location(f"{'s3a' if scheme in _S3 else scheme}://{rest.rstrip('/')}")


def spark_settings() -> dict[str, str]:
    """Settings for a Spark that is started here, so that its `s3a://` reaches the same store as Arrow's `s3://`.

    Hadoop reads access keys from the environment itself, but not a custom endpoint.
    """
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    settings = {"spark.hadoop.fs.s3a.endpoint.region": region} if region else {}
    if endpoint:
        settings["spark.hadoop.fs.s3a.endpoint"] = endpoint
        # Names of hosts with the bucket in front are the provider's own.
        settings["spark.hadoop.fs.s3a.path.style.access"] = "true"
    return settings


def _store(url: str) -> "tuple[fs.FileSystem, str]":
    """The file system of a URL, and the path in it."""
    match = _URL.fullmatch(url)
    if match is None:
        return _local(), url
    scheme, (authority, _, path) = match[1], match[2].partition("/")
    store, base = _opened(scheme, authority)
    return store, "/".join(part for part in (base.rstrip("/"), path) if part)


@cache
def _local() -> "fs.FileSystem":
    from pyarrow import fs

    return fs.LocalFileSystem()


@cache
def _opened(scheme: str, authority: str) -> "tuple[fs.FileSystem, str]":
    """A store, and the path of its root.

    :raises LocationError: if no installed library reaches it.
    """
    import pyarrow as pa
    from pyarrow import fs

    try:
        if scheme in _OF_ARROW:
            store, base = fs.FileSystem.from_uri(f"{_OF_ARROW[scheme]}://{authority}")
            return store, str(base)
        if scheme in _OF_HADOOP:
            store, _ = fs.FileSystem.from_uri(f"{scheme}://{authority}/")
            return store, "/"
    except (pa.ArrowException, OSError, NotImplementedError, ImportError, ValueError) as error:
        raise LocationError(f"cannot open {scheme}://{authority}: {one_line(error)}") from None
    return _of_fsspec(scheme, authority)


def _of_fsspec(scheme: str, authority: str) -> "tuple[fs.FileSystem, str]":
    from pyarrow import fs

    try:
        store, base = importlib.import_module("fsspec.core").url_to_fs(f"{scheme}://{authority}/")
    except (ImportError, ValueError, OSError) as error:
        raise LocationError(
            f"cannot open {scheme}://{authority}: {one_line(error)}; s3a, gs, abfss and hdfs come with "
            "Arrow, others by `pip install fsspec` and what fsspec needs for them"
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(store)), str(base)


def one_line(error: BaseException) -> str:
    """An error of a location, in one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0]
