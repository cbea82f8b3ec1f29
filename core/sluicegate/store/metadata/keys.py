"""Keys as bytes, as etcd and SQLite keep and sort them."""


def key_bytes(key: str) -> bytes:
    """A key in UTF-8; one that others made need not be, and stays what it is."""
    return key.encode(errors="surrogateescape")


def key_text(key: bytes) -> str:
    """The inverse."""
    return key.decode(errors="surrogateescape")


def end_of(prefix: bytes) -> bytes:
    """The first bytes behind all that begin with a prefix; empty if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b""
