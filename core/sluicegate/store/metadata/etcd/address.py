"""Parses etcd URLs: members, TLS, login, timeout and the prefix of keys."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from sluicegate.store.policy_store import StoreError

DEFAULT_PORT = 2379
_SCHEMES = {"etcd": False, "etcds": True}
_TLS_OPTIONS = ("ca", "cert", "key")
_OPTIONS = (*_TLS_OPTIONS, "password_file", "timeout")
_MEMBER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@\s]+)(?::([0-9]{1,5}))?")
_TIMEOUT = re.compile(r"([0-9]{1,6})(ms|s)")
_REMEDY = "write etcd://HOST:2379,HOST:2379/PREFIX, or etcds:// for TLS"


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """The parts of an etcd URL."""

    members: tuple[str, ...]
    """Each `host:port`. Any of them can serve a request."""
    prefix: str = ""
    """Prefix of all keys, without a trailing slash; empty if the URL has none."""
    tls: bool = False
    ca: str | None = None
    """PEM file of the authorities to trust; None for gRPC's public ones."""
    cert: str | None = None
    """PEM file of the client's certificate; `key` has its key."""
    key: str | None = None
    user: str | None = None
    password: str = field(default="", repr=False)
    password_file: str | None = None
    """File that is read at every login, instead of `password`."""
    timeout_s: float = 2.0
    """Timeout of one operation over all members."""

    def secret(self) -> str:
        """The password.

        :raises StoreError: if its file cannot be read.
        """
        if self.password_file is None:
            return self.password
        return _read(self.password_file).decode(errors="replace").strip()

    def pem(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Contents of the files of authorities, key and certificate, in gRPC's order.

        :raises StoreError: if one cannot be read.
        """
        ca, key, cert = (None if path is None else _read(path) for path in (self.ca, self.key, self.cert))
        return ca, key, cert

    def __str__(self) -> str:
        return ",".join(self.members)


def etcd_address(url: str) -> EtcdAddress | None:
    """Parse an etcd URL; None if it has another scheme.

    `etcd://[user[:password]@]host[:port][,host[:port]…][/prefix][?option=value&…]`, `etcds://` with TLS.

    :raises StoreError: if it is malformed; the message never shows the login.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        return None
    address, _, query = rest.partition("?")
    authority, _, path = address.partition("/")
    if "@" in rest[len(authority) :]:
        # For example a password with a slash: what looks like a member is part of it and must not be shown.
        encoded = "percent-encode these in user and password: / %2F, ? %3F, @ %40, : %3A"
        raise StoreError("an etcd URL has an @ after its hosts", encoded)
    login, at, members = authority.rpartition("@")
    user, _, password = login.partition(":")
    if at and not user:
        raise StoreError("an etcd URL has a password without a user", "write etcd://user:password@host")
    options = _options(query, tls=_SCHEMES[scheme])
    if "password_file" in options and (password or not user):
        raise StoreError("password_file replaces the password of a user", "give a user without a password")
    return EtcdAddress(
        members=tuple(_member(member) for member in members.split(",")),
        prefix=f"/{unquote(path).strip('/')}" if path.strip("/") else "",
        tls=_SCHEMES[scheme],
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
        user=unquote(user) or None,
        password=unquote(password),
        password_file=options.get("password_file"),
        timeout_s=_timeout_s(options.get("timeout", "2s")),
    )


def _member(text: str) -> str:
    match = _MEMBER.fullmatch(text)
    port = int(match[2] or DEFAULT_PORT) if match is not None else 0
    if match is None or not 1 <= port <= 65_535:
        raise StoreError(f"etcd member {text!r} is not host:port", _REMEDY)
    return f"{match[1]}:{port}"


def _options(query: str, *, tls: bool) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) < len(pairs):
        raise StoreError("an etcd URL has a duplicate option", "give each option once")
    for name, value in pairs:
        if name not in _OPTIONS:
            raise StoreError(f"an etcd URL has no option {name!r}", f"known options: {', '.join(_OPTIONS)}")
        if not value:
            raise StoreError(f"option {name!r} of an etcd URL is empty", f"write {name}=VALUE, or remove it")
        if name in _TLS_OPTIONS and not tls:
            raise StoreError(f"option {name!r} of an etcd URL requires TLS", "write etcds://")
    if ("cert" in options) != ("key" in options):
        raise StoreError("an etcd URL has only one of cert and key", "give both, or neither")
    return options


def _timeout_s(text: str) -> float:
    match = _TIMEOUT.fullmatch(text)
    if match is None or int(match[1]) == 0:
        raise StoreError(
            f"timeout {text!r} of an etcd URL is not a duration", "write for example 2s or 500ms"
        )
    return int(match[1]) / (1000 if match[2] == "ms" else 1)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StoreError(f"{path!r} of the etcd URL cannot be read ({error.strerror})", "check it") from error
