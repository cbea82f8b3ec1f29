"""Keys as bytes, as etcd and SQLite store and sort them."""


def key_bytes(key: str) -> bytes:
    """Encode a key in UTF-8. Foreign keys that are not valid UTF-8 survive the round trip."""
    return key.encode(errors="surrogateescape")


def key_text(key: bytes) -> str:
    """The inverse of `key_bytes`."""
    return key.decode(errors="surrogateescape")


def end_of(prefix: bytes) -> bytes:
    """The smallest key greater than all keys with a prefix; empty if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b""
