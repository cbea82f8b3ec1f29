"""Handles calls of methods that the method map does not name."""

from collections.abc import Callable, Mapping

from sluicegate.model import UnknownRule
from sluicegate_grpc.proxy.once import Once
from sluicegate_grpc.semantics.status import Refusal

_UNIMPLEMENTED = 12
_MAX_PATH = 200


def _ignore(path: str, passes: bool) -> None:
    """Report nothing."""


class UnknownMethods:
    """The rule for unknown methods, which no policy can apply to.

    :param rule: for all of them, or by the full name of their service; others are refused then.
    :param tell: called with the path of each method once, and whether it passes; of a bounded number.
    """

    __slots__ = ("_once", "_rule", "_tell")

    def __init__(
        self,
        rule: UnknownRule | Mapping[str, UnknownRule] = "refuse",
        tell: Callable[[str, bool], None] = _ignore,
    ) -> None:
        self._rule = rule
        self._tell = tell
        self._once = Once()

    def meet(self, path: str) -> Refusal | None:
        """Handle a call of an unknown method.

        :param path: `/package.Service/Method`.
        :return: None if it passes, else UNIMPLEMENTED, upon which clients do
            not retry.
        """
        service = path[1:].rpartition("/")[0]
        rule = self._rule if isinstance(self._rule, str) else self._rule.get(service, "refuse")
        shown = path[:_MAX_PATH]
        if self._once.first(shown):
            self._tell(shown, rule == "pass")
        if rule == "pass":
            return None
        text = (
            f"Method {shown} is not known to the gateway. To let its service pass without policies, set "
            f"unknown_methods: {{{service[:_MAX_PATH]}: pass}}."
        )
        return Refusal(_UNIMPLEMENTED, text, b"")
