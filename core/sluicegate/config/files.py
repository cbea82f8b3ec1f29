"""Checks whether this machine has the files and directories that a configuration refers to."""

import os
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path as FilePath
from typing import NamedTuple

from sluicegate.config.errors import Finding, Severity
from sluicegate.config.models import Admin, BrokerConfig, GatewayConfig, Tls
from sluicegate.config.tls import TlsFileError, TlsSection, expiries, outdated, problems
from sluicegate.config.tree import Node
from sluicegate.config.validation import Path


class LocatedTls(NamedTuple):
    """A section that refers to TLS files, with its path."""

    path: Path
    section: TlsSection
    warn_before: timedelta
    """How long before its expiry a certificate counts as expiring soon."""


def tls_sections(brokers: Iterable[tuple[int, BrokerConfig]]) -> Iterator[LocatedTls]:
    """The TLS sections of all brokers.

    :param brokers: entries, each with its index in the file.
    """
    for index, broker in brokers:
        before = timedelta(milliseconds=max(broker.tls.warn_before, default=0))
        for keys, section in broker.tls_sections():
            yield LocatedTls(("brokers", index, *keys), section, before)


def admin_tls(admin: Admin) -> Iterator[LocatedTls]:
    """The TLS section of the admin endpoint, if it has one."""
    if admin.tls is not None:
        before = timedelta(milliseconds=max(Tls().warn_before, default=0))
        yield LocatedTls(("admin", "tls"), admin.tls, before)


def exposed_admin(root: Node, admin: Admin) -> Iterator[Finding]:
    """Tell of an admin endpoint that others than this host reach in plain text.

    :param root: the whole file.
    """
    if admin.tls is not None or _is_loopback(admin.host):
        return
    path = ("admin", "host")
    message = f"the admin endpoint on {admin.host} speaks plain HTTP to other hosts"
    if admin.callers:
        message += ", so their tokens can be read on the way"
    remedy = "set admin.tls, or listen on 127.0.0.1"
    yield root.nearest(path).error(path, message, remedy, "warning" if admin.callers else "note")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def tls_findings(
    root: Node,
    sections: Iterable[LocatedTls],
    now: datetime,
    outdated_is: Severity = "warning",
    *,
    warn_of_expiry: bool = False,
) -> Iterator[Finding]:
    """Find TLS files that cannot be used.

    :param root: the whole file.
    :param now: the time at which certificates must be valid.
    :param outdated_is: the severity of a certificate that is not. The gateway can start with one, but clients
        and brokers that verify certificates refuse it.
    :param warn_of_expiry: whether to warn of certificates that expire soon. A running gateway logs these
        warnings itself.
    """
    for path, section, warn_before in sections:
        errors = problems(section)
        yield from (_finding(root, path, error, "error") for error in errors)
        if errors:
            continue
        late = outdated(section, now)
        yield from (_finding(root, path, error, outdated_is) for error in late)
        if warn_of_expiry and not late:
            yield from (
                _finding(root, path, each, "warning") for each in _expiring(section, now + warn_before)
            )


def _expiring(section: TlsSection, by: datetime) -> Iterator[TlsFileError]:
    for each in expiries(section):
        if each.ends < by:
            problem = f"{each.path!r} expires on {each.ends:%Y-%m-%d %H:%M} UTC"
            remedy = "renew the file; a running gateway reads it again without a restart"
            yield TlsFileError(each.key, problem, remedy)


def _finding(root: Node, path: Path, error: TlsFileError, severity: Severity) -> Finding:
    keys = (int(key) if key.isdigit() else key for key in error.key.split("."))
    full = (*path, *keys)
    return root.nearest(full).error(full, error.problem, error.remedy, severity)


def directory_findings(root: Node, config: GatewayConfig) -> Iterator[Finding]:
    """Find directories that the gateway needs and cannot write to.

    :param root: the whole file.
    """
    named: list[tuple[Path, str | None]] = [(("state_dir",), config.state_dir)]
    if config.decisions.enabled:
        named.append((("decisions", "directory"), config.decisions.directory))
    for path, directory in named:
        problem = problem_with_directory(directory) if directory is not None else ""
        if problem:
            message = f"{'.'.join(map(str, path))} {directory!r} cannot be used: {problem}"
            remedy = "name a directory that the gateway can write to; it is created if it does not exist"
            yield root.nearest(path).error(path, message, remedy)


def problem_with_directory(directory: str | os.PathLike[str]) -> str:
    """Why a directory cannot be written to; empty if it can. The directory need not exist yet."""
    nearest = FilePath(directory).absolute()
    try:
        while not _is_there(nearest):
            nearest = nearest.parent
        if not nearest.is_dir():
            return f"{str(nearest)!r} is not a directory"
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error)
    return "" if os.access(nearest, os.W_OK | os.X_OK) else f"{str(nearest)!r} is not writable"


def _is_there(path: FilePath) -> bool:
    """Whether a path leads to something that can be seen.

    :raises OSError, ValueError: if it never can, such as one that is too long.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    return True
