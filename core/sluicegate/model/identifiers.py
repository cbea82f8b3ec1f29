"""Names of topics and principals."""

import re
from dataclasses import dataclass
from hashlib import sha256

ANONYMOUS = "ANONYMOUS"
"""The principal of a client that the broker lets in without authentication."""

_PATH = re.compile(r"/?([^/.]+)[/.].+")


_DIGEST = 32
"""Characters of the digest in a shortened name."""


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic and the namespace whose policies it inherits."""

    full: str
    """The name as the broker knows it."""
    namespace: str
    """The namespace's name, as each broker defines namespaces."""
    others: tuple[str, ...] = ()
    """Further names under which policies may be set for it: short forms, the topic that it is part of."""

    @property
    def all(self) -> tuple[str, ...]:
        """All names under which policies may be set for it."""
        return (self.full, *self.others)


def path_name(topic: str) -> TopicName:
    """A name whose namespace is the part before its first `/` or `.` (a leading `/` aside), or `default`."""
    read = _PATH.fullmatch(topic)
    return TopicName(topic, read[1] if read is not None else "default")


def shortened(name: str, longest: int) -> str:
    """A name of at most `longest` characters, a different one for each; a long one ends with a digest."""
    if len(name) < longest:  # only shortened ones have as many, so that no name is that of another one
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: longest - _DIGEST - 1]}~{digest}"


def written_out(name: str) -> str:
    """A name that a log can hold: JSON may have half of a character in it, which is written out."""
    return name.encode(errors="backslashreplace").decode()


def split_client(client: str) -> tuple[str, str]:
    """Client id and address of `Operation.client`; the host stands for the id of a client without one."""
    client_id, _, address = client.rpartition("@")
    return client_id or address.rpartition(":")[0] or address, address
