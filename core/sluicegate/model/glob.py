"""Patterns of names: `*` stands for any characters, and nothing else is special."""


class Glob:
    """A pattern of names, such as `team-*.orders`. Matching takes time linear in the name and the pattern.

    Clients choose names, and a backtracking regular expression of four `*` takes seconds for some of 249
    characters. Here each part of the pattern is looked for once, behind the part before it.

    :param pattern: without `*` it matches itself alone.
    """

    __slots__ = ("_last", "_middle", "_pattern", "prefix")

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.prefix, *parts = pattern.split("*")
        """What every matching name begins with."""
        *self._middle, self._last = parts or [""]

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        if not name.startswith(self.prefix):
            return False
        if self.prefix == self._pattern:
            return name == self._pattern
        at, end = len(self.prefix), len(name) - len(self._last)
        for part in self._middle:
            start = name.find(part, at, end)
            if start < 0:
                return False
            at = start + len(part)
        return at <= end and name.endswith(self._last)
