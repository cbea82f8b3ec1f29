"""The driver of any gRPC broker with a method map, and the base of more specific ones."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sluicegate.broker import BaseDriver, BaseFront, Extra
from sluicegate.model import MethodMap, TopicName, path_name
from sluicegate_grpc.proxy.capabilities import capabilities_of
from sluicegate_grpc.proxy.config import GrpcConfig
from sluicegate_grpc.proxy.entry import MapEntry, entry_model

if TYPE_CHECKING:
    from sluicegate_grpc.proxy.front import GrpcFront

__all__ = ["GrpcConfig", "GrpcDriver"]


class GrpcDriver(BaseDriver):
    """The driver for the system of a method map.

    Clients reach the brokers of `bootstrap`, tried one after the other. A driver whose brokers lead clients
    to each other has a front of its own.

    :param methods: which method is which operation.
    :param config_model: of the entry under `brokers:`; made for the map if it is left out.
    :param capabilities: how the system supports each policy; by default what the map's roles allow.
    """

    extra = Extra(
        "sluicegate[grpc]",
        {
            "google.protobuf": "protobuf",
            "google.rpc": "googleapis-common-protos",
            "hpack": "hpack",
        },
    )

    def __init__(
        self,
        methods: MethodMap,
        config_model: type[GrpcConfig] | None = None,
        capabilities: Mapping[str, str] | None = None,
    ) -> None:
        self.methods = methods
        self.system = methods.system
        self.config_model = config_model or entry_model(methods)
        self.capabilities = capabilities or capabilities_of(methods)

    def name_of(self, topic: str, config: Any) -> TopicName:
        """The namespace is what precedes the first `/` or `.`, a leading `/` aside; else `default`."""
        return path_name(topic)

    def front(self, config: Any) -> "GrpcFront | BaseFront":
        """A front for one configured broker; gates of other brokers do not load it."""
        from sluicegate_grpc.proxy.bearer import bearer_principal
        from sluicegate_grpc.proxy.front import GrpcFront

        bearer = isinstance(config, MapEntry) and config.principals == "bearer"
        return GrpcFront(config, self.methods, bearer_principal if bearer else None)
