"""Handles calls of methods that the method map does not name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sluicegate.model import UnknownRule
from sluicegate_grpc.proxy.once import Once
from sluicegate_grpc.semantics.status import UNIMPLEMENTED, Refusal

_MAX_PATH = 200


@dataclass(eq=False)
class UnknownMethods:
    """The rule for unknown methods, which no policy can apply to."""

    rule: UnknownRule | Mapping[str, UnknownRule] = "refuse"
    """For all of them, or by the full name of their service; others are refused then."""
    tell: Callable[[str, bool], None] = lambda path, passes: None
    """Called with the path of each method once, and whether it passes; of a bounded number."""
    _once: Once = field(default_factory=Once)

    def refusal(self, path: str) -> Refusal | None:
        """How a call of an unknown method is refused.

        :param path: `/package.Service/Method`.
        :return: None if it passes, else UNIMPLEMENTED, upon which clients do
            not retry.
        """
        service = path[1:].rpartition("/")[0]
        rule = self.rule if isinstance(self.rule, str) else self.rule.get(service, "refuse")
        shown = path[:_MAX_PATH]
        if self._once.first(shown):
            self.tell(shown, rule == "pass")
        if rule == "pass":
            return None
        text = (
            f"Method {shown} is not known to the gateway. To let its service pass without policies, set "
            f"unknown_methods: {{{service[:_MAX_PATH]}: pass}}."
        )
        return Refusal(UNIMPLEMENTED, text)
