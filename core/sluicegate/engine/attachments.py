"""Reference-counted set of producers and consumers."""

from collections.abc import Iterator

_FEW = 8
"""Connections of one attachment that are kept in a tuple."""


class Attachments:
    """Attachment keys, each with the connections that hold it.

    An attachment lives until its last connection leaves or it is released.
    """

    __slots__ = ("_principals", "_refs", "_roaming")

    def __init__(self) -> None:
        # Tuples, as nearly all have one connection: a dict would cost 170 bytes more for each producer. It
        # makes leaving cheap where there are many.
        self._refs: dict[str, tuple[str, ...] | dict[str, None]] = {}
        self._principals: dict[str, str] | None = None
        """Whose attachments they are, where that is known: on topics with scopes."""
        self._roaming: set[str] | None = None
        """Those whose keys name them at every gateway, where that is of use: with shared limits."""

    def __len__(self) -> int:
        return len(self._refs)

    def __contains__(self, key: object) -> bool:
        return key in self._refs

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._refs))

    def holders(self) -> Iterator[tuple[str, str, str]]:
        """Key, principal and a connection of each attachment; the principal is empty if it is not known."""
        principals = self._principals or {}
        for key, refs in self._refs.items():
            yield key, principals.get(key, ""), next(iter(refs))

    def roams(self, key: str) -> bool:
        """Whether the key of an attachment is known to name it at every gateway."""
        return self._roaming is not None and key in self._roaming

    def attach(self, key: str, ref: str, principal: str = "", *, roams: bool = False) -> None:
        """Add a connection to an attachment, which is created if it is new.

        :param principal: whose it is; empty if nobody asks.
        :param roams: whether its key names it at every gateway; False where limits are not shared.
        """
        if roams:
            self._roaming = self._roaming or set()
            self._roaming.add(key)
        if principal:
            self._principals = self._principals or {}
            self._principals[key] = principal
        refs = self._refs.get(key, ())
        if isinstance(refs, dict):
            refs[ref] = None
        elif ref not in refs:
            self._refs[key] = (*refs, ref) if len(refs) < _FEW else dict.fromkeys((*refs, ref))

    def detach(self, key: str, ref: str) -> bool:
        """Remove a connection from an attachment.

        :return: True if the attachment was released because this was its last connection.
        """
        refs = self._refs.get(key)
        if refs is None or ref not in refs:
            return False
        if isinstance(refs, dict):
            del refs[ref]
        else:
            self._refs[key] = refs = tuple(other for other in refs if other != ref)
        if refs:
            return False
        return self.release(key)

    def release(self, key: str) -> bool:
        """Remove an attachment with all its connections; False if there is none."""
        if self._principals is not None:
            self._principals.pop(key, None)
        if self._roaming is not None:
            self._roaming.discard(key)
        return self._refs.pop(key, None) is not None

    def rename(self, old: str, new: str, *, roams: bool = False) -> None:
        """Give an attachment another key, joining it with one that has that key already.

        :param roams: as for `attach`.
        """
        if old == new or old not in self._refs:
            return
        for ref in self._refs[old]:
            self.attach(new, ref, self._principal(old), roams=roams)
        self.release(old)

    def move(self, old: str, new: str, ref: str) -> None:
        """Move one connection to another attachment; does nothing if it does not hold the old one.

        An attachment that is left without connections is released in the same step.
        """
        if old == new or ref not in self._refs.get(old, ()):
            return
        self.attach(new, ref, self._principal(old))
        self.detach(old, ref)

    def _principal(self, key: str) -> str:
        return self._principals.get(key, "") if self._principals is not None else ""
