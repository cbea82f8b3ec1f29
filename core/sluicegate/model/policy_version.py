"""The version of policies: a digest of the rules, equal on each gateway and after each restart."""

import hashlib
from collections.abc import Iterable, Iterator

from sluicegate.model.policy import PolicyLayer

_BYTES = 6
"""A version is exact as a double, as which Prometheus keeps numbers."""


def digest_of(layers: Iterable[PolicyLayer]) -> bytes:
    """Equal iff the rules are; where a setting was made does not count."""
    rows = sorted(
        f"{int(layer.level)}\0{layer.name}\0{layer.broker}\0{field}\0{is_ceiling}\0{setting.value!r}\0"
        f"{int(setting.source)}{setting.locked}{place}"
        for layer, place in _placed(layers)
        for is_ceiling, settings in enumerate((layer.settings, layer.ceilings))
        for field, setting in settings.items()
    )
    return hashlib.blake2b("\n".join(rows).encode(errors="surrogatepass")).digest()


def _placed(layers: Iterable[PolicyLayer]) -> Iterator[tuple[PolicyLayer, str]]:
    """Layers with their scopes and the order of these: of two equally specific ones the later counts."""
    scoped = 0
    for layer in layers:
        scoped += bool(layer.scope)
        yield layer, f"\0{scoped} {layer.scope!r}" if layer.scope else ""


def policy_version(*parts: bytes) -> int:
    """The version of policies that consist of parts.

    :param parts: digests, always in the same order.
    """
    digest = hashlib.blake2b(digest_size=_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return int.from_bytes(digest.digest(), "big")


def version_text(version: int) -> str:
    """A version as people see it, such as `3f9a2c41b07d`."""
    return f"{version:0{2 * _BYTES}x}"
