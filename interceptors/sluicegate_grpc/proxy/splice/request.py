"""What a proxy knows of one request from its headers."""

from dataclasses import dataclass, field

from sluicegate.model import ANONYMOUS, Method
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.semantics.fields import Plan
from sluicegate_grpc.semantics.status import Refusal


@dataclass(frozen=True, slots=True)
class Plans:
    """How the messages of one method are read."""

    request: Plan
    named: Plan
    """For requests of producers whose id is not known, but that may tell their name."""
    response: Plan
    timeless: Plan
    """For responses if it does not matter when they were published."""
    sizes: Plan
    """For responses of which only the size matters."""
    identity: Plan
    """For the first message to a consumer whose id is not known."""


_NOTHING = Plans(*(Plan({}),) * 6)


@dataclass(slots=True)
class Request:
    """The parsed headers of a request, one object for all equal ones."""

    path: str
    """`/package.Service/Method`."""
    method: Method | None = None
    """None if no policy can ask about it."""
    is_publish: bool = False
    plans: Plans = _NOTHING
    encoding: str = ""
    """The compression of its messages (`grpc-encoding`)."""
    length: int | None = None
    """Bytes of all its DATA, if it tells."""
    credentials: bytes = b""
    """A digest of its `authorization`; empty without a principal."""
    principal: str = ANONYMOUS
    """The principal that the credentials claim."""
    authorization: str = field(default="", repr=False)
    """Its `authorization`, if the gateway may act on behalf of its client."""
    broker: str = ""
    """The broker that it is for, if it names one."""
    block: bytes = b""
    """Its headers encoded for the broker; empty if they pass unchanged."""
    is_malformed: bool = False
    """True if a server may read its headers otherwise than the gateway."""
    are_trailers: bool = False
    """True if they may end a request."""
    refusal: tuple[GrpcEvent, Refusal] | None = None
    """Why it is refused whatever the policies say: the counter, and the answer."""
    is_too_large: bool = False
    """True if its headers were not read, as they are too large."""
    is_plain: bool = True
    """True if its headers may pass without being looked at again."""

    @property
    def known_method(self) -> Method:
        """Its method.

        :raises LookupError: if no policy can ask about it.
        """
        if self.method is None:
            raise LookupError(f"no policy asks about {self.path}")
        return self.method
