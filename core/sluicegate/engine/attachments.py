"""Who is attached, counted once however many connections refer to him."""

from collections.abc import Iterator


class Attachments:
    """Attachment keys, each with the connections that refer to it.

    An attachment lives until its last connection is gone, it is released, or it was idle too long.
    """

    __slots__ = ("_refs", "_seen_ns")

    def __init__(self) -> None:
        # Tuples, as nearly all have one connection: a set would cost 170 bytes more for each producer.
        self._refs: dict[str, tuple[str, ...]] = {}
        self._seen_ns: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._refs)

    def __contains__(self, key: object) -> bool:
        return key in self._refs

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._refs))

    def attach(self, key: str, ref: str, now_ns: int = 0) -> None:
        """Add a connection to an attachment, which is created if it is new."""
        refs = self._refs.get(key, ())
        if ref not in refs:
            self._refs[key] = (*refs, ref)
        self._seen_ns[key] = max(now_ns, self._seen_ns.get(key, 0))

    def detach(self, key: str, ref: str) -> bool:
        """Remove a connection from an attachment.

        :return: True if the attachment was released because this was its last connection.
        """
        refs = self._refs.get(key)
        if refs is None or ref not in refs:
            return False
        left = tuple(other for other in refs if other != ref)
        if left:
            self._refs[key] = left
            return False
        return self.release(key)

    def release(self, key: str) -> bool:
        """Remove an attachment with all its connections; False if there is none."""
        self._seen_ns.pop(key, None)
        return self._refs.pop(key, None) is not None

    def rename(self, old: str, new: str) -> None:
        """Give an attachment another key, joining it with one that has that key already."""
        if old == new or old not in self._refs:
            return
        seen_ns = self._seen_ns.get(old, 0)
        for ref in self._refs[old]:
            self.attach(new, ref, seen_ns)
        self.release(old)

    def move(self, old: str, new: str, ref: str) -> None:
        """Have one connection refer to another attachment; does nothing if it does not refer to the old one.

        An attachment that is left without connections is released in the same step.
        """
        if old == new or ref not in self._refs.get(old, ()):
            return
        self.attach(new, ref, self._seen_ns.get(old, 0))
        self.detach(old, ref)

    def touch(self, key: str, now_ns: int) -> None:
        """Note that an attachment was in use; does nothing for an unknown one."""
        if key in self._refs:
            self._seen_ns[key] = now_ns

    def idle_since(self, before_ns: int) -> list[str]:
        """Keys of attachments that were last in use at or before a time."""
        return [key for key, seen_ns in self._seen_ns.items() if seen_ns <= before_ns]
