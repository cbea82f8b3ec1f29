"""What an etcd URL says: members, TLS, login, time-out and the prefix of keys."""

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
    """Where an etcd is and how to speak to it."""

    members: tuple[str, ...]
    """Each `host:port`; which one is asked does not matter."""
    prefix: str = ""
    """Begins all keys; without a slash at its end. Empty if the URL names none."""
    tls: bool = False
    ca: str | None = None
    """PEM file of the authorities to trust; None for the public ones that gRPC knows."""
    cert: str | None = None
    """PEM file of the client's certificate, with `key` its key."""
    key: str | None = None
    user: str | None = None
    password: str = field(default="", repr=False)
    password_file: str | None = None
    """Read at every login, in place of `password`."""
    timeout_s: float = 2.0
    """How long one operation may take, whatever the number of members."""

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
    """Take an etcd URL apart; None if it has another scheme.

    `etcd://[user[:password]@]host[:port][,host[:port]…][/prefix][?option=value&…]`, `etcds://` with TLS.

    :raises StoreError: if it is wrong; the message holds nothing of the login.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        return None
    place, _, query = rest.partition("?")
    authority, _, path = place.partition("/")
    if "@" in rest[len(authority) :]:
        # A password with a slash, say: what looks like a member is a part of it, and not to be shown.
        encoded = "percent-encode these in user and password: / %2F, ? %3F, @ %40, : %3A"
        raise StoreError("an etcd URL has an @ behind its hosts", encoded)
    login, at, members = authority.rpartition("@")
    user, _, password = login.partition(":")
    if at and not user:
        raise StoreError("an etcd URL has a password without a user", "write etcd://user:password@host")
    options = _options(query, tls=_SCHEMES[scheme])
    if "password_file" in options and (password or not user):
        raise StoreError("password_file stands in place of the password of a user", "name the user alone")
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
    found = _MEMBER.fullmatch(text)
    port = int(found[2] or DEFAULT_PORT) if found is not None else 0
    if found is None or not 1 <= port <= 65_535:
        raise StoreError(f"etcd member {text!r} is not host:port", _REMEDY)
    return f"{found[1]}:{port}"


def _options(query: str, *, tls: bool) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) < len(pairs):
        raise StoreError("an etcd URL has an option twice", "name each once")
    for name, value in pairs:
        if name not in _OPTIONS:
            raise StoreError(f"an etcd URL has no option {name!r}", f"known are {', '.join(_OPTIONS)}")
        if not value:
            raise StoreError(
                f"option {name!r} of an etcd URL is empty", f"write {name}=VALUE, or leave it out"
            )
        if name in _TLS_OPTIONS and not tls:
            raise StoreError(f"option {name!r} of an etcd URL is for TLS", "begin it with etcds://")
    if ("cert" in options) != ("key" in options):
        raise StoreError("an etcd URL has one of cert and key", "name both, or none")
    return options


def _timeout_s(text: str) -> float:
    found = _TIMEOUT.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise StoreError(f"timeout {text!r} of an etcd URL is no time", "write one such as 2s or 500ms")
    return int(found[1]) / (1000 if found[2] == "ms" else 1)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise StoreError(f"{path!r} of the etcd URL cannot be read ({error.strerror})", "check it") from error
